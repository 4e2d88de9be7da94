//! Attaches pictures to a Hermes session before the message is submitted. Hermes includes them in its next turn. Other
//! files are only named in the message, and Hermes' tools can read them.

use serde_json::json;

use super::backend::HermesProcess;
use crate::agent::AgentError;
use crate::agent::attachment_content::{self, MOST_IMAGES};
use crate::domain::{Attachment, FileKind};

/// Hermes' own size limit for pictures.
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

/// Attaches the pictures to the session. A picture that Hermes refuses is only named in the message. Returns false if
/// one failed: the session may then hold pictures that do not belong to the next message.
pub(super) async fn attach(backend: &HermesProcess, live: &str, images: &[&Attachment]) -> bool {
    let mut sure = true;
    for image in images {
        let size = attachment_content::size(image).await;
        if size.is_none_or(|size| size > LARGEST) {
            continue;
        }
        if let Err(error) = one(backend, live, image).await {
            tracing::warn!(%error, file = ?image.path, "Hermes refused a picture, agent gets only its description");
            sure = false;
        }
    }
    sure
}

async fn one(backend: &HermesProcess, live: &str, image: &Attachment) -> Result<(), AgentError> {
    let whole = tokio::fs::canonicalize(&image.path).await;
    let whole = whole.map_err(|error| AgentError::Failed(error.to_string()))?;
    let path = whole.to_string_lossy();
    let params = json!({"session_id": live, "path": path});
    let attached = backend.call("image.attach", params).await?;
    // Hermes parses the path as typed text, so it may attach another file.
    if attached["path"] != *path {
        let params = json!({"session_id": live, "path": attached["path"]});
        backend.call("image.detach", params).await?;
        return Err(AgentError::Failed("Hermes understood another path".into()));
    }
    Ok(())
}
