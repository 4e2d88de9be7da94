//! Calls the Bot API over HTTP. Answers stay plain JSON, because a field that is new to the SDK must not make a sent
//! message look like a failed one.

use std::time::Duration;

use reqwest::{Client, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;
use teloxide_core::requests::Payload;

use crate::platform::BuildError;
use crate::platform::http_failure::HttpFailure;
use crate::platform::telegram::failure::Failure;

const VENDOR: &str = "https://api.telegram.org";
/// The longest wait for an answer, except for the long poll and uploads.
const PATIENCE: Duration = Duration::from_secs(50);

/// The Bot API with a bot's token.
pub(super) struct Api {
    client: Client,
    root: Url,
    token: SecretString,
}

impl Api {
    /// `base_url` ends before the token, as in Hermes' configuration.
    pub(super) fn new(
        client: Client,
        token: &SecretString,
        base_url: Option<&str>,
    ) -> Result<Api, BuildError> {
        let root = base_url.unwrap_or(VENDOR).trim_end_matches('/');
        let root = root.strip_suffix("/bot").unwrap_or(root);
        let root = Url::parse(root)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| BuildError("platforms.telegram.base_url is not a URL".into()))?;
        Ok(Api {
            client,
            root,
            token: token.clone(),
        })
    }

    pub(super) async fn call<P>(&self, payload: P) -> Result<Value, Failure>
    where
        P: Payload + Serialize,
    {
        self.call_within(payload, PATIENCE).await
    }

    pub(super) async fn call_within<P>(
        &self,
        payload: P,
        patience: Duration,
    ) -> Result<Value, Failure>
    where
        P: Payload + Serialize,
    {
        let request = self.client.post(self.method(P::NAME)).json(&payload);
        let response = request.timeout(patience).send().await?;
        read(response).await
    }

    /// A call with a file. The caller limits its time.
    pub(super) async fn upload(
        &self,
        method: &str,
        form: reqwest::multipart::Form,
    ) -> Result<Value, Failure> {
        let request = self.client.post(self.method(method)).multipart(form);
        let response = request.send().await?;
        read(response).await
    }

    /// The content of a file, by the path that `getFile` gave.
    pub(super) async fn file(&self, path: &str) -> Result<Response, Failure> {
        let mut url = self.root.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("file").push(&self.name());
            segments.extend(path.split('/'));
        }
        let request = self.client.get(url).send();
        let response = tokio::time::timeout(PATIENCE, request).await;
        let response = response.map_err(|_| HttpFailure::silence(PATIENCE))??;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(match read(response).await {
                Err(failure) => failure,
                Ok(_) => HttpFailure::silence(PATIENCE).into(),
            }),
        }
    }

    fn method(&self, name: &str) -> Url {
        // The SDK capitalises method names and the documentation does not. Not every server accepts both.
        let (first, rest) = name.split_at(1);
        let name = format!("{}{rest}", first.to_ascii_lowercase());
        let mut url = self.root.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(&self.name()).push(&name);
        }
        url
    }

    /// The part of every address that names the bot.
    fn name(&self) -> String {
        format!("bot{}", self.token.expose_secret())
    }
}

/// The id of the message that a call has sent. `0` if the answer does not name it: such a message cannot be edited.
pub(super) fn message_id(answer: &Value) -> String {
    let id = answer.get("message_id").and_then(Value::as_i64);
    if id.is_none() {
        tracing::debug!("message sent, its id is not known");
    }
    id.unwrap_or_default().to_string()
}

async fn read(response: Response) -> Result<Value, Failure> {
    let status = response.status();
    if let Some(failure) = HttpFailure::redirected(&response) {
        return Err(failure.into());
    }
    let body = response.bytes().await?;
    let answer = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    match answer.get("ok").and_then(Value::as_bool) {
        Some(true) => Ok(answer.get("result").cloned().unwrap_or_default()),
        Some(false) => Err(refusal(&answer, status.as_u16())),
        None => Err(HttpFailure::foreign(status.as_u16(), &body).into()),
    }
}

fn refusal(answer: &Value, status: u16) -> Failure {
    let parameter = |name: &str| answer.get("parameters")?.get(name)?.as_i64();
    if let Some(id) = parameter("migrate_to_chat_id") {
        return Failure::Moved(id);
    }
    let code = answer.get("error_code").and_then(Value::as_u64);
    let description = answer.get("description").and_then(Value::as_str);
    let pause = parameter("retry_after").and_then(|seconds| u64::try_from(seconds).ok());
    Failure::Refused {
        code: code.and_then(|c| c.try_into().ok()).unwrap_or(status),
        description: description.unwrap_or_default().to_owned(),
        retry_after: pause.map(Duration::from_secs),
    }
}
