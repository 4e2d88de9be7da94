//! Uploads files to Telegram as pictures, voice messages, music, videos or documents. An upload may take as long as it
//! makes progress.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Body;
use reqwest::multipart::{Form, Part};
use serde_json::Value;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_util::io::ReaderStream;

use super::Telegram;
use super::failure::Failure;
use crate::domain::Source;
use crate::platform::http_failure::HttpFailure;
use crate::platform::telegram::address;
use crate::platform::telegram::api::message_id;

/// An upload without progress for this time fails.
const IDLE: Duration = Duration::from_secs(60);
/// The slowest accepted rate behind our own buffers, in bytes per second. After our last byte, the data may still be in
/// transit, and a Bot API server of your own answers only when Telegram has the whole file.
const SLOWEST: u64 = 16 << 10;
/// A larger picture is sent as a document.
const LARGEST_PHOTO: u64 = 10_000_000;

/// A form in which Telegram accepts a file: the method and the field of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    method: &'static str,
    field: &'static str,
}

const DOCUMENT: Shape = Shape {
    method: "sendDocument",
    field: "document",
};

impl Shape {
    fn of(path: &Path, size: u64) -> Shape {
        let shape = |method, field| Shape { method, field };
        let extension = path.extension().and_then(|e| e.to_str());
        match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
            "jpg" | "jpeg" | "png" | "webp" if size <= LARGEST_PHOTO => shape("sendPhoto", "photo"),
            "ogg" | "oga" | "opus" => shape("sendVoice", "voice"),
            "mp3" | "m4a" => shape("sendAudio", "audio"),
            "mp4" => shape("sendVideo", "video"),
            _ => DOCUMENT,
        }
    }
}

impl Telegram {
    /// Sends a file in the form of its kind. If Telegram refuses that form, sends it as a document.
    pub(super) async fn send_file(
        &self,
        to: &Source,
        path: &Path,
        caption: &str,
    ) -> Result<String, Failure> {
        let size = tokio::fs::metadata(path).await;
        let size = size.map_err(|e| unreadable(path, &e))?.len();
        let shape = Shape::of(path, size);
        let answer = match self.upload(to, path, size, shape, caption).await {
            Err(failure) if shape != DOCUMENT && failure.is_bad_request() => {
                tracing::info!(
                    ?failure,
                    method = shape.method,
                    "file refused in this form, sending it as a document"
                );
                self.upload(to, path, size, DOCUMENT, caption).await?
            }
            answer => answer?,
        };
        Ok(message_id(&answer))
    }

    async fn upload(
        &self,
        to: &Source,
        path: &Path,
        size: u64,
        shape: Shape,
        caption: &str,
    ) -> Result<Value, Failure> {
        let file = tokio::fs::File::open(path).await;
        let file = file.map_err(|e| unreadable(path, &e))?;
        let sent = Arc::new(watch::Sender::new(0u64));
        let progress = sent.clone();
        let chunks = ReaderStream::with_capacity(file, 64 << 10).map(move |chunk| {
            let length = chunk.as_ref().map_or(0, |chunk| chunk.len());
            progress.send_modify(|sent| *sent += length as u64);
            chunk
        });
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = Part::stream_with_length(Body::wrap_stream(chunks), size);
        let chat = to.chat_id.clone().unwrap_or_default();
        let mut form = Form::new().text("chat_id", chat);
        if let Some(topic) = address::topic(to) {
            form = form.text("message_thread_id", topic.to_string());
        }
        if !caption.is_empty() {
            form = form.text("caption", caption.to_owned());
        }
        let form = form.part(shape.field, part.file_name(name.into_owned()));
        let call = self.api.upload(shape.method, form);
        while_it_moves(call, &sent, size).await
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    // The chat must not learn the path.
    tracing::warn!(path = %path.display(), %error, "file to send cannot be read");
    Failure::File("it cannot be read".into())
}

/// Waits for an upload while it makes progress. When all is sent, waits as long as `SLOWEST` allows.
async fn while_it_moves<T>(
    call: impl Future<Output = Result<T, Failure>>,
    sent: &watch::Sender<u64>,
    size: u64,
) -> Result<T, Failure> {
    let mut call = pin!(call);
    let mut progress = sent.subscribe();
    loop {
        let all_sent = *progress.borrow_and_update() >= size;
        let patience = match all_sent {
            true => IDLE + Duration::from_secs(size / SLOWEST),
            false => IDLE,
        };
        tokio::select! {
            outcome = &mut call => return outcome,
            moved = tokio::time::timeout(patience, progress.changed()) => {
                if moved.is_err() {
                    return Err(HttpFailure::silence(patience).into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTES: u64 = 1 << 20;

    #[tokio::test(start_paused = true)]
    async fn an_upload_may_take_as_long_as_it_moves() {
        let sent = watch::Sender::new(0);
        let slow = async {
            for _ in 0..40 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                sent.send_modify(|sent| *sent += MEGABYTES);
            }
            tokio::time::sleep(Duration::from_secs(600)).await;
            Ok(7)
        };
        assert_eq!(while_it_moves(slow, &sent, 40 * MEGABYTES).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_that_stands_still_has_failed() {
        for moved in [0, 39, 40] {
            let sent = watch::Sender::new(moved * MEGABYTES);
            let never = std::future::pending::<Result<(), Failure>>();
            let ended = while_it_moves(never, &sent, 40 * MEGABYTES).await;
            let stood = matches!(
                &ended,
                Err(Failure::Http(HttpFailure::Network { unsure: true, .. }))
            );
            assert!(stood, "{ended:?}");
        }
    }

    #[test]
    fn a_file_is_sent_in_the_shape_of_its_kind() {
        for (name, size, method) in [
            ("a.PNG", 1, "sendPhoto"),
            ("a.png", LARGEST_PHOTO + 1, "sendDocument"),
            ("a.ogg", 1, "sendVoice"),
            ("a.mp3", 1, "sendAudio"),
            ("a.mp4", 1, "sendVideo"),
            ("a", 1, "sendDocument"),
        ] {
            assert_eq!(Shape::of(Path::new(name), size).method, method, "{name}");
        }
    }
}
