//! Shares files with a chat, and fetches those of people.

use std::path::Path;

use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio_stream::StreamExt;
use tokio_util::io::ReaderStream;

use super::Slack;
use super::failure::Failure;
use super::format::text;
use super::send::channel_of;
use crate::domain::{RemoteFile, Source};
use crate::platform::download::save;
use crate::platform::{OutboundMessage, PlatformError};

impl Slack {
    /// Uploads a file and shares it. Returns the id of the file: Slack does not say the message's.
    pub(super) async fn share(
        &self,
        to: &Source,
        what: &OutboundMessage<'_>,
        path: &Path,
    ) -> Result<String, PlatformError> {
        let unreadable = |error: std::io::Error| {
            // The chat must not learn the path.
            tracing::warn!(path = %path.display(), %error, "file to send cannot be read");
            Failure::File("it cannot be read".into())
        };
        let file = tokio::fs::File::open(path).await.map_err(unreadable)?;
        let length = file.metadata().await.map_err(unreadable)?.len();
        if length == 0 {
            return Err(Failure::File("it is empty, and Slack takes no empty files".into()).into());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (channel, thread) = (channel_of(to), to.thread_id.as_deref());
        if let Some(since) = what.first_tried
            && let Some(id) = self
                .find_shared(&channel, thread, since, &name, length)
                .await?
        {
            return Ok(id);
        }
        let size = length.to_string();
        let params = [("filename", &*name), ("length", &size)];
        let place = self.api.ask("files.getUploadURLExternal", &params).await?;
        let field = |field: &str| place[field].as_str().unwrap_or_default().to_owned();
        let (url, id) = (field("upload_url"), field("file_id"));
        let chunks = ReaderStream::with_capacity(file, 64 << 10);
        let body = reqwest::Body::wrap_stream(chunks);
        self.api
            .upload(&url, body, length)
            .await
            .map_err(|failure| {
                match PlatformError::from(failure) {
                    // Nothing is in the chat before the file is shared.
                    PlatformError::Transient {
                        reason,
                        retry_after,
                        ..
                    } => PlatformError::Transient {
                        reason,
                        retry_after,
                        unsure: false,
                    },
                    error => error,
                }
            })?;
        let mut share = json!({
            "files": [{"id": id, "title": name}],
            "channel_id": channel,
        });
        if let Some(thread) = thread {
            share["thread_ts"] = thread.into();
        }
        if !what.text.is_empty() {
            share["initial_comment"] = text(what.text).into();
        }
        self.api
            .call("files.completeUploadExternal", &share)
            .await?;
        Ok(id)
    }

    /// The file of an earlier attempt: the bot's own, with the same name and size, in the same thread.
    async fn find_shared(
        &self,
        channel: &str,
        thread: Option<&str>,
        since: f64,
        name: &str,
        length: u64,
    ) -> Result<Option<String>, Failure> {
        let files = |message: &Value| -> Option<String> {
            let files = message["files"].as_array()?;
            let same = files
                .iter()
                .find(|file| file["name"] == name && file["size"] == length)?;
            Some(same["id"].as_str()?.to_owned())
        };
        let is_it = |message: &Value| files(message).is_some();
        let found = self.find_own(channel, thread, since, is_it).await?;
        Ok(found.as_ref().and_then(files))
    }

    pub(super) async fn download(
        &self,
        file: &RemoteFile,
        to: &Path,
        largest: u64,
    ) -> Result<(), PlatformError> {
        let (url, mime) = match Url::parse(&file.id) {
            Ok(url) => (url, file.mime.clone()),
            Err(_) => self.find_file(&file.id).await?,
        };
        let response = self.api.file(url).await?;
        let header = response.headers().get(CONTENT_TYPE);
        let header = header
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default();
        let is_page = |mime: &str| mime.starts_with("text/html");
        // Slack shows its page for signing in to those who may not read the file, with a status of success.
        if is_page(header) && !mime.as_deref().is_some_and(is_page) {
            return Err(PlatformError::Permanent(
                "Slack does not give the file to the bot: add the scope files:read at api.slack.com/apps and install the app again"
                    .into(),
            ));
        }
        let chunks = response.bytes_stream().map(|chunk| match chunk {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(Failure::from(error).into()),
        });
        save(to, largest, chunks).await
    }

    /// The address and the type of a file by its id.
    async fn find_file(&self, id: &str) -> Result<(Url, Option<String>), Failure> {
        let answer = self.api.ask("files.info", &[("file", id)]).await?;
        let file = &answer["file"];
        let urls = [&file["url_private_download"], &file["url_private"]];
        let url = urls.into_iter().find_map(Value::as_str);
        let url = url.and_then(|url| Url::parse(url).ok());
        let url = url.ok_or_else(|| Failure::File("the file has no address".into()))?;
        Ok((url, file["mimetype"].as_str().map(str::to_owned)))
    }
}
