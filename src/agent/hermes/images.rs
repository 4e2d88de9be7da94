//! Pictures, given to Hermes before the words that they came with: its next turn takes them along. Other files are in the
//! words, where its tools find them.

use serde_json::json;

use super::backend::Backend;
use crate::agent::AgentError;
use crate::agent::attachment_content::{self, MOST_IMAGES};
use crate::domain::{Attachment, FileKind};

/// The largest picture that Hermes takes where it looks at the size.
const LARGEST: u64 = 25 << 20;

pub(super) fn of(attachments: &[Attachment]) -> Vec<&Attachment> {
    let is_image = |attachment: &&Attachment| match attachment.kind {
        FileKind::Image => true,
        FileKind::File => {
            let declared = attachment.declared_type();
            declared.is_some_and(|declared| declared.starts_with("image/"))
        }
        _ => false,
    };
    let images = attachments.iter().filter(is_image);
    images.take(MOST_IMAGES).collect()
}

/// Puts them into the session. What Hermes does not take stays words. False: it may have some of them and not know what
/// for.
pub(super) async fn attach(backend: &Backend, live: &str, images: &[&Attachment]) -> bool {
    let mut sure = true;
    for image in images {
        let size = attachment_content::size(image).await;
        if size.is_none_or(|size| size > LARGEST) {
            continue;
        }
        if let Err(error) = one(backend, live, image).await {
            tracing::warn!(%error, file = ?image.path, "Hermes does not take a picture, it gets the words about it");
            sure = false;
        }
    }
    sure
}

async fn one(backend: &Backend, live: &str, image: &Attachment) -> Result<(), AgentError> {
    let whole = tokio::fs::canonicalize(&image.path).await;
    let whole = whole.map_err(|error| AgentError::Failed(error.to_string()))?;
    let path = whole.to_string_lossy();
    let wish = json!({"session_id": live, "path": path});
    let taken = backend.call("image.attach", wish).await?;
    // It reads a path as people type them, and so might understand another one.
    if taken["path"] != *path {
        let wish = json!({"session_id": live, "path": taken["path"]});
        backend.call("image.detach", wish).await?;
        return Err(AgentError::Failed("it understood another path".into()));
    }
    Ok(())
}
