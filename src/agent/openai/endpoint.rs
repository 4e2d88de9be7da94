//! The way to the endpoint: what to try again, when, and what is final.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::RETRY_AFTER;
use reqwest::{Client, Response, StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::request::Request;
use crate::agent::AgentError;
use crate::name_lookup::NameLookup;

/// Attempts before the endpoint counts as out of order.
const ATTEMPTS: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long it may take to answer the phone; how long to answer is the turn's own clock.
const CONNECT: Duration = Duration::from_secs(20);
/// What is read of an error's explanation, and what is shown of it.
const PAGE: usize = 64 << 10;
const EXPLANATION: usize = 500;
/// A shorter key is no secret but a word that stands in for one, where an endpoint wants none.
const SHORTEST_SECRET: usize = 8;

pub(super) struct Endpoint {
    client: Client,
    url: Url,
    /// The address as it is logged: without the secrets that may stand in it. People in chats do not see it.
    shown: Url,
    api_key: Option<SecretString>,
}

enum Failure {
    /// With the endpoint's wish for when to come back.
    Later(String, Option<Duration>),
    /// The request holds something that this endpoint may not know.
    TooMuch(String),
    /// It takes words, and the request has more than that.
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
                format!("agents.openai.base_url is not the address of an endpoint: {base_url}")
            })?;
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .dns_resolver(Arc::new(NameLookup::default()))
            // A conversation goes where the person wants it, and nowhere else.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("hermesd/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| format!("no HTTP client: {}", explain(e)))?;
        let mut shown = url.clone();
        // Neither fails for an address of the web.
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

    /// The beginning of an answer. Nothing of it was read yet, so that until here everything may be tried again.
    ///
    /// A person reads the error, in a chat perhaps. The address stands in the log alone.
    pub(super) async fn ask(&self, request: Request) -> Result<Response, AgentError> {
        self.try_until_final(request).await.map_err(|reason| {
            tracing::warn!(endpoint = %self.shown, reason, "the model gave no answer");
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
                    tracing::debug!(reason, "asking again without what not every endpoint takes");
                    continue;
                }
                Err(Failure::OnlyWords(reason)) => {
                    request.put_in_words();
                    tracing::warn!(reason, "asking again in words alone");
                    continue;
                }
                Err(Failure::Final(reason)) => return Err(reason),
                Err(Failure::Later(reason, retry_after)) => (reason, retry_after),
            };
            if attempt == ATTEMPTS || retry_after.is_some_and(|after| after > LONGEST_WAIT) {
                let after = retry_after
                    .map(|t| format!("; it wants to be left alone for {} s", t.as_secs()));
                return Err(format!(
                    "{reason} ({attempt} tries){}",
                    after.unwrap_or_default()
                ));
            }
            tracing::warn!(attempt, endpoint = %self.shown, reason, "the model did not answer, trying again");
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
                let why = self.veil(&explain(e));
                Failure::Later(format!("the model cannot be reached: {why}"), None)
            }
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = retry_after(&response);
        let said = explanation(response).await;
        if request.has_parts() && takes_only_words(status, &said) {
            return Err(Failure::OnlyWords(self.told(status, &said)));
        }
        Err(self.judge(status, &said, retry_after))
    }

    fn told(&self, status: StatusCode, said: &str) -> String {
        self.veil(&format!("the model answered {status}: {said}"))
    }

    fn judge(&self, status: StatusCode, said: &str, retry_after: Option<Duration>) -> Failure {
        let told = self.told(status, said);
        match status.as_u16() {
            401 | 403 => Failure::Final(format!("{told}. Check agents.openai.api_key")),
            404 => Failure::Final(format!(
                "{told}. Check agents.openai.base_url and agents.openai.model"
            )),
            400 | 422 => Failure::TooMuch(told),
            408 | 409 | 425 | 429 => Failure::Later(told, retry_after),
            _ if status.is_server_error() => Failure::Later(told, retry_after),
            300..=399 => Failure::Final(format!(
                "{told}. Check agents.openai.base_url: hermesd does not follow it elsewhere"
            )),
            _ => Failure::Final(told),
        }
    }
}

impl Endpoint {
    /// What the endpoint said, without our key and its address: some say them back, and chats show what they say.
    pub(super) fn veil(&self, said: &str) -> String {
        let key = self.api_key.as_ref().map(ExposeSecret::expose_secret);
        let mut said = match key.filter(|key| key.len() >= SHORTEST_SECRET) {
            Some(key) => said.replace(key, "********"),
            None => said.to_owned(),
        };
        // The longest first: each holds the next.
        let origin = self.url.origin().ascii_serialization();
        for address in [self.url.as_str(), self.shown.as_str(), origin.as_str()] {
            said = said.replace(address, "(its address)");
        }
        said
    }
}

/// Whether a refusal is about pictures, or about messages that are more than a text. There is no code for that, and
/// vendors do not even agree on the status.
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
        // Else it is a failure that may pass.
        500.. => names(&PICTURES) && names(&["support", "input"]),
        _ => false,
    }
}

/// Seconds, or a date.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let until = at.duration_since(jiff::Timestamp::now());
    Some(Duration::try_from(until).unwrap_or_default())
}

/// What the endpoint says of an error, without the rest of a page.
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

/// An error of the HTTP client with its causes, since the outermost alone says nothing; without the address.
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
        let told = endpoint.told(StatusCode::BAD_GATEWAY, said);
        assert!(told.contains("502 Bad Gateway"), "{told}");
        for hidden in ["models.example", "pass", "sk-"] {
            assert!(!told.contains(hidden), "{told}");
        }
        assert!(!endpoint.shown.as_str().contains("pass"));
    }
}
