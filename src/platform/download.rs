//! Saving what a platform gives out.

use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_stream::{Stream, StreamExt};

use super::PlatformError;

/// Copies a file of this machine, and stops at the first byte too many.
pub(super) async fn save_file(
    to: &Path,
    largest: u64,
    from: std::fs::File,
) -> Result<(), PlatformError> {
    let own = |e: std::io::Error| PlatformError::NotYet(format!("{}: {e}", to.display()));
    let mut file = tokio::fs::File::create(to).await.map_err(own)?;
    let mut from = tokio::fs::File::from_std(from).take(largest + 1);
    let length = tokio::io::copy(&mut from, &mut file).await.map_err(own)?;
    if length > largest {
        return Err(too_large(to, largest).await);
    }
    file.flush().await.map_err(own)
}

async fn too_large(part: &Path, largest: u64) -> PlatformError {
    let _ = tokio::fs::remove_file(part).await;
    let megabytes = largest / 1_000_000;
    PlatformError::Permanent(format!("it is larger than {megabytes} MB"))
}

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
            return Err(too_large(to, largest).await);
        }
        file.write_all(&chunk).await.map_err(own)?;
    }
    file.flush().await.map_err(own)
}
