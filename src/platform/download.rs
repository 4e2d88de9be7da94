//! Saves files from a platform.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_stream::{Stream, StreamExt};

use super::PlatformError;

/// A download fails if no data arrives for this time. The total time is not limited.
const IDLE: Duration = Duration::from_secs(60);

/// Copies a file of this machine. Fails if it has more than `largest` bytes.
pub(super) async fn save_file(
    to: &Path,
    largest: u64,
    from: std::fs::File,
) -> Result<(), PlatformError> {
    let own = |e: std::io::Error| PlatformError::Storage(format!("{}: {e}", to.display()));
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

/// Writes the chunks of a file. Fails if they have more than `largest` bytes.
pub(super) async fn save(
    to: &Path,
    largest: u64,
    mut chunks: impl Stream<Item = Result<Vec<u8>, PlatformError>> + Unpin,
) -> Result<(), PlatformError> {
    let own = |e: std::io::Error| PlatformError::Storage(format!("{}: {e}", to.display()));
    let mut file = tokio::fs::File::create(to).await.map_err(own)?;
    let mut length = 0u64;
    loop {
        let Ok(chunk) = tokio::time::timeout(IDLE, chunks.next()).await else {
            let idle = IDLE.as_secs();
            return Err(PlatformError::transient(format!(
                "no data arrived for {idle} s"
            )));
        };
        let Some(chunk) = chunk else { break };
        let chunk = chunk?;
        length += chunk.len() as u64;
        if length > largest {
            return Err(too_large(to, largest).await);
        }
        file.write_all(&chunk).await.map_err(own)?;
    }
    file.flush().await.map_err(own)
}
