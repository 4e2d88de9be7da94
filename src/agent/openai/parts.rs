//! Builds the content parts for attachments: pictures, and the content of text files. The message only names the rest.

use serde_json::{Value, json};

use crate::agent::attachment_content::{self, MOST_IMAGES};
use crate::domain::{Attachment, FileKind};

pub(super) async fn parts(attachments: &[Attachment]) -> Vec<Value> {
    let (mut parts, mut images) = (Vec::new(), 0);
    let is_for_models = |a: &&Attachment| matches!(a.kind, FileKind::Image | FileKind::File);
    for attachment in attachments.iter().filter(is_for_models) {
        let Some(bytes) = attachment_content::content(attachment).await else {
            continue;
        };
        if let Some(mime) = attachment_content::image_type(attachment, &bytes) {
            images += 1;
            if images <= MOST_IMAGES {
                let url = format!("data:{mime};base64,{}", attachment_content::base64(&bytes));
                parts.push(json!({"type": "image_url", "image_url": {"url": url}}));
            }
        } else if let Some(read) = attachment_content::text(attachment, bytes) {
            let name = attachment.shown_name();
            parts.push(text(&format!("The file {name}:\n\n{read}")));
        }
    }
    parts
}

pub(super) fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

/// The text in a list of parts.
pub(super) fn words(parts: &[Value]) -> String {
    let texts = parts.iter().filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::attachment_content::tests::{Files, PNG};

    #[tokio::test]
    async fn pictures_and_readable_files_go_along_and_all_else_stays_words() {
        let files = Files::new();
        let mut gone = files.sent(FileKind::Image, "gone.png", None, PNG);
        gone.path.push("nowhere");
        let sent = [
            files.sent(FileKind::File, "notes.md", None, "# Ünë\n".as_bytes()),
            gone,
            files.sent(FileKind::Voice, "v.ogg", Some("audio/ogg"), b"OggS"),
            files.sent(FileKind::Image, "p.png", Some("image/jpeg"), PNG),
            files.sent(FileKind::File, "r.pdf", Some("application/pdf"), b"%PDF"),
        ];
        assert_eq!(
            parts(&sent).await,
            [
                json!({"type": "text", "text": "The file notes.md:\n\n# Ünë\n"}),
                json!({"type": "image_url", "image_url": {
                    "url": "data:image/png;base64,iVBORw0KGgogYW5kIHNvIG9u"}}),
            ]
        );
    }

    #[tokio::test]
    async fn no_more_than_ten_pictures_go_along() {
        let files = Files::new();
        let image = |n: usize| files.sent(FileKind::Image, &format!("{n}"), None, PNG);
        let mut sent: Vec<Attachment> = (0..12).map(image).collect();
        sent.push(files.sent(FileKind::File, "a.txt", None, b"text"));
        let parts = parts(&sent).await;
        let of = |kind: &str| parts.iter().filter(|part| part["type"] == kind).count();
        assert_eq!((of("image_url"), of("text")), (10, 1));
    }
}
