//! Sends a request to the endpoint, and decides which failures to retry.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Response, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::request::Request;
use crate::agent::AgentError;
use crate::name_lookup::NameLookup;

/// Attempts before a request fails.
const ATTEMPTS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The time limit for connecting. The turn's own timeouts limit the answer.
const CONNECT: Duration = Duration::from_secs(20);
/// How many bytes of an error page are read, and how many characters of it are shown.
const PAGE: usize = 64 << 10;
const EXPLANATION: usize = 500;
/// A shorter key is a placeholder for an endpoint without keys, not a secret.
const SHORTEST_SECRET: usize = 8;

pub(super) struct Endpoint {
    client: Client,
    url: Url,
    /// The address for the log, without the secrets that it may contain. Chats never show it.
    shown: Url,
    api_key: Option<SecretString>,
}

enum Failure {
    /// May be retried, after the time that the endpoint asks for.
    Later(String, Option<Duration>),
    /// The address refuses connections: no server runs there.
    NobodyThere,
    /// The request may contain fields that this endpoint does not know.
    TooMuch(String),
    /// The endpoint accepts only text, and the request contains more.
    OnlyWords(String),
    Final(String),
}

impl Endpoint {
    pub(super) fn new(base_url: &str, api_key: Option<SecretString>) -> Result<Endpoint, String> {
        let url = format!("{}/chat/completions", base_url.trim_end_matches('/'));
        let url = Url::parse(&url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| {
                format!("agents.openai.base_url is not an http or https address: {base_url}")
            })?;
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .dns_resolver(Arc::new(NameLookup::default()))
            // A conversation goes only to the configured address.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("hermesd/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| format!("the HTTP client cannot be created: {}", explain(e)))?;
        let mut shown = url.clone();
        // Neither can fail for an http address.
        let _ = shown.set_username("");
        let _ = shown.set_password(None);
        shown.set_query(None);
        Ok(Endpoint {
            shown,
            client,
            url,
            api_key,
        })
    }

    /// Returns a response whose body is unread, so everything up to here may be retried.
    ///
    /// The error may be shown in a chat, so only the log contains the address.
    pub(super) async fn ask(&self, request: Request) -> Result<Response, AgentError> {
        self.try_until_final(request).await.map_err(|reason| {
            tracing::warn!(endpoint = %self.shown, reason, "model request failed");
            AgentError::Failed(reason)
        })
    }

    async fn try_until_final(&self, mut request: Request) -> Result<Response, String> {
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        loop {
            let (reason, retry_after) = match self.try_once(&request).await {
                Ok(response) => return Ok(response),
                Err(Failure::TooMuch(reason)) => {
                    if !request.simplify() {
                        return Err(reason);
                    }
                    tracing::debug!(reason, "retrying without optional fields");
                    continue;
                }
                Err(Failure::OnlyWords(reason)) => {
                    request.put_in_words();
                    tracing::warn!(reason, "retrying with text only");
                    continue;
                }
                Err(Failure::Final(reason)) => return Err(reason),
                Err(Failure::NobodyThere) if attempt == ATTEMPTS => {
                    return Err(format!(
                        "Nothing answers at the model's address (connection refused, {attempt} tries). Is the server running? Address: agents.openai.base_url"
                    ));
                }
                Err(Failure::NobodyThere) => ("connection refused".to_owned(), None),
                Err(Failure::Later(reason, retry_after)) => (reason, retry_after),
            };
            if attempt == ATTEMPTS || retry_after.is_some_and(|after| after > LONGEST_WAIT) {
                let after = retry_after.map(|t| format!("; it asks to wait {} s", t.as_secs()));
                return Err(format!(
                    "{reason} ({attempt} tries){}",
                    after.unwrap_or_default()
                ));
            }
            tracing::warn!(attempt, endpoint = %self.shown, reason, "model request failed, will retry");
            tokio::time::sleep(retry_after.unwrap_or(wait)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
            attempt += 1;
        }
    }

    async fn try_once(&self, request: &Request) -> Result<Response, Failure> {
        let mut call = self
            .client
            .post(self.url.clone())
            .header("content-type", "application/json")
            .header("accept", "text/event-stream")
            .body(request.body().to_string());
        if let Some(key) = &self.api_key {
            call = call.bearer_auth(key.expose_secret());
        }
        let response = call.send().await.map_err(|e| match e.is_builder() {
            true => Failure::Final(format!(
                "the request cannot be made: {}. Check agents.openai.api_key",
                explain(e)
            )),
            false => {
                let refused = e.is_connect() && is_refused(&e);
                let why = self.redact(&explain(e));
                match refused {
                    true => Failure::NobodyThere,
                    false => Failure::Later(format!("the model cannot be reached: {why}"), None),
                }
            }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = retry_after(&response);
        let said = explanation(response).await;
        if request.has_parts() && takes_only_words(status, &said) {
            return Err(Failure::OnlyWords(self.answered(status, &said)));
        }
        Err(self.judge(status, &said, retry_after))
    }

    fn answered(&self, status: StatusCode, said: &str) -> String {
        self.redact(&format!("the model answered {status}: {said}"))
    }

    fn judge(&self, status: StatusCode, said: &str, retry_after: Option<Duration>) -> Failure {
        let answered = self.answered(status, said);
        match status.as_u16() {
            401 | 403 => Failure::Final(format!("{answered}. Check agents.openai.api_key")),
            404 if self.url.path() == "/chat/completions" => Failure::Final(format!(
                "{answered}. Most servers want /v1: set agents.openai.base_url to the same address with /v1 at its end"
            )),
            404 => Failure::Final(format!(
                "{answered}. Check agents.openai.base_url and agents.openai.model"
            )),
            400 | 422 => Failure::TooMuch(answered),
            408 | 409 | 425 | 429 => Failure::Later(answered, retry_after),
            _ if status.is_server_error() => Failure::Later(answered, retry_after),
            300..=399 => Failure::Final(format!(
                "{answered}. Check agents.openai.base_url: hermesd does not follow redirects"
            )),
            _ => Failure::Final(answered),
        }
    }
}

impl Endpoint {
    /// Removes our key and the address: some endpoints repeat them, and the text may be shown in a chat.
    pub(super) fn redact(&self, said: &str) -> String {
        let key = self.api_key.as_ref().map(ExposeSecret::expose_secret);
        let mut said = match key.filter(|key| key.len() >= SHORTEST_SECRET) {
            Some(key) => said.replace(key, "********"),
            None => said.to_owned(),
        };
        // The longest first, because each may contain the next.
        let origin = self.url.origin().ascii_serialization();
        for address in [self.url.as_str(), self.shown.as_str(), origin.as_str()] {
            said = said.replace(address, "(its address)");
        }
        said
    }
}

/// Whether the cause of an error is that nobody listens at the address.
fn is_refused(error: &reqwest::Error) -> bool {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Whether a refusal is about pictures or content parts. There is no error code for that, and vendors use different
/// statuses.
fn takes_only_words(status: StatusCode, said: &str) -> bool {
    const PICTURES: [&str; 5] = ["image", "vision", "multimodal", "multi-modal", "modalit"];
    const PARTS: [&str; 6] = [
        "content type",
        "content_type",
        "content part",
        "expected a string",
        "must be a string",
        "valid string",
    ];
    let said = said.to_lowercase();
    let names = |words: &[&str]| words.iter().any(|word| said.contains(word));
    match status.as_u16() {
        413 | 415 => true,
        400 | 404 | 422 => names(&PICTURES) || names(&PARTS),
        // Any other server error may be temporary.
        500.. => names(&PICTURES) && names(&["support", "input"]),
        _ => false,
    }
}

/// The header holds seconds or a date.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let until = at.duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(until).unwrap_or_default())
}

/// The endpoint's error message, shortened.
async fn explanation(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk);
        if body.len() > PAGE {
            break;
        }
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    let said = serde_json::from_str::<Value>(&body).ok().and_then(|json| {
        let error = json.get("error").unwrap_or(&json);
        let message = error
            .get("message")
            .or_else(|| error.get("detail"))
            .unwrap_or(error);
        message.as_str().map(str::to_owned)
    });
    let said = said.unwrap_or(body);
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    match said.chars().take(EXPLANATION).collect::<String>() {
        empty if empty.is_empty() => "no reason given".to_owned(),
        said => said,
    }
}

/// An error of the HTTP client with its causes, because the outermost says little. Without the address.
pub(super) fn explain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = Vec::new();
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = cause {
        let word = error.to_string();
        if !words.iter().any(|known: &String| known.contains(&word)) {
            words.push(word);
        }
        cause = error.source();
    }
    words.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_reads_holds_neither_the_address_nor_a_secret() {
        let key = SecretString::from("sk-0123456789".to_owned());
        let endpoint = Endpoint::new("https://me:pass@models.example:8443/v1", Some(key)).unwrap();
        let said = "https://me:pass@models.example:8443/v1/chat/completions and \
                    https://models.example:8443/v1/chat/completions and https://models.example:8443/ refuse sk-0123456789";
        let answered = endpoint.answered(StatusCode::BAD_GATEWAY, said);
        assert!(answered.contains("502 Bad Gateway"), "{answered}");
        for hidden in ["models.example", "pass", "sk-"] {
            assert!(!answered.contains(hidden), "{answered}");
        }
        assert!(!endpoint.shown.as_str().contains("pass"));
    }
}
