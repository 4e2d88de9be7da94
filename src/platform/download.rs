//! Saving what a platform gives out.

use std::path::Path;

use tokio::io::AsyncWriteExt;
use tokio_stream::{Stream, StreamExt};

use super::PlatformError;

/// Writes what comes of a file, and stops at the first byte too many.
pub(super) async fn save(
    to: &Path,
    largest: u64,
    mut chunks: impl Stream<Item = Result<Vec<u8>, PlatformError>> + Unpin,
) -> Result<(), PlatformError> {
    let own = |e: std::io::Error| PlatformError::NotYet(format!("{}: {e}", to.display()));
    let mut file = tokio::fs::File::create(to).await.map_err(own)?;
    let mut length = 0u64;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        length += chunk.len() as u64;
        if length > largest {
            drop(file);
            let _ = tokio::fs::remove_file(to).await;
            let megabytes = largest / 1_000_000;
            return Err(PlatformError::Permanent(format!(
                "it is larger than {megabytes} MB"
            )));
        }
        file.write_all(&chunk).await.map_err(own)?;
    }
    file.flush().await.map_err(own)
}
