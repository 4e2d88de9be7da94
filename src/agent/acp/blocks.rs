//! Builds the content blocks of a prompt: text, then attachments. Pictures and sounds are embedded if the agent accepts
//! them. Every other file becomes a link, which every agent accepts.

use agent_client_protocol::v1::schema::{
    AudioContent, ContentBlock, ImageContent, PromptCapabilities, ResourceLink, TextContent,
};
use reqwest::Url;

use crate::agent::attachment_content::{self, MOST_IMAGES};
use crate::domain::{Attachment, FileKind};

/// The limit for embedded content in one prompt, in bytes. A prompt is one line, and some agents read lines of at most
/// 50 MiB.
const MOST_BYTES: usize = 30 << 20;

pub(super) async fn blocks(
    texts: Vec<String>,
    attachments: &[Attachment],
    takes: &PromptCapabilities,
) -> Vec<ContentBlock> {
    let mut blocks: Vec<ContentBlock> = texts
        .into_iter()
        .map(|text| ContentBlock::Text(TextContent::new(text)))
        .collect();
    let (mut images, mut room) = (0, MOST_BYTES);
    for attachment in attachments {
        let Some(size) = attachment_content::size(attachment).await else {
            continue;
        };
        let whole = whole(attachment, takes).await;
        let fits = |(mime, bytes): &(String, Vec<u8>)| {
            bytes.len() <= room && (images < MOST_IMAGES || !is_image(mime))
        };
        match whole.filter(fits) {
            Some((mime, bytes)) => {
                room -= bytes.len();
                images += usize::from(is_image(&mime));
                blocks.push(content(mime, &bytes));
            }
            None => blocks.extend(link(attachment, size)),
        }
    }
    blocks
}

/// Type and content of an attachment that this agent accepts embedded.
async fn whole(attachment: &Attachment, takes: &PromptCapabilities) -> Option<(String, Vec<u8>)> {
    let is_wanted = match attachment.kind {
        FileKind::Image | FileKind::File => takes.image,
        FileKind::Voice | FileKind::Audio => takes.audio,
        FileKind::Video => false,
    };
    if !is_wanted {
        return None;
    }
    let bytes = attachment_content::content(attachment).await?;
    let image = attachment_content::image_type(attachment, &bytes).map(str::to_owned);
    let mime = image.or_else(|| attachment_content::audio_type(attachment, &bytes))?;
    Some((mime, bytes))
}

fn is_image(mime: &str) -> bool {
    mime.starts_with("image/")
}

fn content(mime: String, bytes: &[u8]) -> ContentBlock {
    let data = attachment_content::base64(bytes);
    match is_image(&mime) {
        true => ContentBlock::Image(ImageContent::new(data, mime)),
        false => ContentBlock::Audio(AudioContent::new(data, mime)),
    }
}

fn link(attachment: &Attachment, size: u64) -> Option<ContentBlock> {
    let uri = Url::from_file_path(&attachment.path).ok()?;
    let link = ResourceLink::new(attachment.shown_name(), uri)
        .mime_type(attachment.declared_type())
        .size(i64::try_from(size).ok());
    Some(ContentBlock::ResourceLink(link))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::agent::attachment_content::tests::{Files, PNG};

    async fn made(attachments: &[Attachment], takes: &PromptCapabilities) -> Vec<Value> {
        let blocks = blocks(vec!["words".into()], attachments, takes).await;
        let mut blocks: Vec<Value> = blocks.iter().map(|block| json!(block)).collect();
        assert_eq!(blocks.remove(0), json!({"type": "text", "text": "words"}));
        blocks
    }

    fn kinds(blocks: &[Value]) -> Vec<&str> {
        let kinds = blocks.iter().map(|block| block["type"].as_str());
        kinds.map(Option::unwrap).collect()
    }

    #[tokio::test]
    async fn an_agent_gets_whole_what_it_takes_and_else_a_link() {
        let files = Files::new();
        let sent = [
            files.sent(FileKind::Image, "p.png", None, PNG),
            files.sent(
                FileKind::Voice,
                "v",
                Some("audio/ogg; codecs=opus"),
                b"OggS",
            ),
            files.sent(FileKind::File, "a b.pdf", Some("application/pdf"), b"%PDF"),
        ];
        let (image, audio) = (
            PromptCapabilities::new().image(true),
            PromptCapabilities::new().audio(true),
        );
        let none = made(&sent, &PromptCapabilities::new()).await;
        assert_eq!(kinds(&none), ["resource_link"; 3]);
        let directory = sent[0].path.parent().unwrap().display().to_string();
        assert_eq!(
            none[2],
            json!({"type": "resource_link", "name": "a b.pdf", "uri": format!("file://{directory}/a%20b.pdf"),
                   "mimeType": "application/pdf", "size": 4})
        );
        let pictures = made(&sent, &image).await;
        assert_eq!(
            kinds(&pictures),
            ["image", "resource_link", "resource_link"]
        );
        assert_eq!(
            pictures[0],
            json!({"type": "image", "data": "iVBORw0KGgogYW5kIHNvIG9u", "mimeType": "image/png"})
        );
        let sounds = made(&sent, &audio).await;
        assert_eq!(kinds(&sounds), ["resource_link", "audio", "resource_link"]);
        assert_eq!(
            sounds[1],
            json!({"type": "audio", "data": "T2dnUw==", "mimeType": "audio/ogg"})
        );
    }

    #[tokio::test]
    async fn what_is_too_much_is_linked_and_what_is_gone_is_not() {
        let files = Files::new();
        let takes = PromptCapabilities::new().image(true);
        let large = [PNG, &vec![0; 5 << 20]].concat();
        let half = [PNG, &vec![0; 4 << 20]].concat();
        let mut sent = vec![files.sent(FileKind::Image, "large", None, &large)];
        sent.extend((0..8).map(|n| files.sent(FileKind::Image, &format!("{n}"), None, &half)));
        let blocks = made(&sent, &takes).await;
        let linked: Vec<usize> = (0..9)
            .filter(|at| blocks[*at]["type"] == "resource_link")
            .collect();
        assert_eq!(
            linked,
            [0, 8],
            "the large one, and the one beyond the limit of a prompt"
        );

        let image = |n: usize| files.sent(FileKind::Image, &format!("{n}"), None, PNG);
        let many: Vec<Attachment> = (0..12).map(image).collect();
        let blocks = made(&many, &takes).await;
        assert_eq!(
            kinds(&blocks)[9..],
            ["image", "resource_link", "resource_link"]
        );

        std::fs::remove_file(&many[0].path).unwrap();
        assert_eq!(made(&many[..1], &takes).await, [Value::Null; 0]);
    }
}
