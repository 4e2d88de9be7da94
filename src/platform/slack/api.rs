//! Calls Slack's Web API. The bodies of calls come from the SDK. Answers stay plain JSON, because a field that is new to
//! the SDK must not make a sent message look like a failed one.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;

use super::config::Tokens;
use super::failure::{Failure, Token};
use crate::platform::BuildError;
use crate::platform::http_failure::HttpFailure;

/// The longest wait for an answer, except for uploads.
const PATIENCE: Duration = Duration::from_secs(30);
const UPLOAD_PATIENCE: Duration = Duration::from_secs(600);
const VENDOR: &str = "https://slack.com";
/// The wait if Slack refuses for a while and does not say how long.
const SOME_TIME: Duration = Duration::from_secs(5);

/// The API with the tokens of an app.
pub(super) struct Api {
    client: Client,
    bot: SecretString,
    app: SecretString,
    /// The server, without a path.
    root: Url,
    /// The server is not Slack's, so Slack's servers get no token.
    is_other_server: bool,
}

impl Api {
    /// `base_url` ends before `/api/`.
    pub(super) fn new(
        client: Client,
        tokens: Tokens,
        base_url: Option<&str>,
    ) -> Result<Api, BuildError> {
        let root = base_url.unwrap_or(VENDOR).trim_end_matches('/');
        let root = root.strip_suffix("/api").unwrap_or(root);
        let url = Url::parse(root).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        let wrong = || BuildError("platforms.slack.base_url is not a URL".into());
        Ok(Api {
            client,
            bot: tokens.bot,
            app: tokens.app,
            root: url.ok_or_else(wrong)?,
            is_other_server: base_url.is_some(),
        })
    }

    /// Whether this address is on Slack's servers, or on the server that stands for them. A token goes there only.
    pub(super) fn is_allowed(&self, url: &Url) -> bool {
        match self.is_other_server {
            true => {
                (self.root.scheme(), self.root.host_str(), self.root.port())
                    == (url.scheme(), url.host_str(), url.port())
            }
            false => url.scheme() == "https" && is_vendor(url),
        }
    }

    /// The address of a connection, if a ticket may go there.
    pub(super) fn allowed_socket(&self, url: &str) -> Option<Url> {
        let parsed = Url::parse(url).ok()?;
        let is_socket = match self.is_other_server {
            true => matches!(parsed.scheme(), "ws" | "wss") && !is_vendor(&parsed),
            false => parsed.scheme() == "wss" && is_vendor(&parsed),
        };
        is_socket.then_some(parsed)
    }

    /// A call with a body of JSON.
    pub(super) async fn call(&self, method: &str, body: &impl Serialize) -> Result<Value, Failure> {
        let body = serde_json::to_vec(body).unwrap_or_default();
        let request = self.post(method, Token::Bot);
        let request = request
            .header(CONTENT_TYPE, "application/json; charset=utf-8")
            .body(body);
        Ok(self.send(request, Token::Bot).await?.0)
    }

    /// A call of a method that takes a form only.
    pub(super) async fn ask(
        &self,
        method: &str,
        params: &[(&str, &str)],
    ) -> Result<Value, Failure> {
        let request = self.post(method, Token::Bot).form(params);
        Ok(self.send(request, Token::Bot).await?.0)
    }

    /// Who the bot is, and the scopes of its token.
    pub(super) async fn auth_test(&self) -> Result<(Value, Vec<String>), Failure> {
        let request = self.post("auth.test", Token::Bot);
        let (answer, headers) = self.send(request, Token::Bot).await?;
        let scopes = headers.get("x-oauth-scopes");
        let scopes = scopes.and_then(|scopes| scopes.to_str().ok());
        let scopes = scopes.unwrap_or_default().split(',').map(str::trim);
        let scopes = scopes.filter(|scope| !scope.is_empty());
        Ok((answer, scopes.map(str::to_owned).collect()))
    }

    /// The address for one connection of Socket Mode.
    pub(super) async fn open_connection(&self) -> Result<String, Failure> {
        let request = self.post("apps.connections.open", Token::App);
        let (answer, _) = self.send(request, Token::App).await?;
        Ok(answer["url"].as_str().unwrap_or_default().to_owned())
    }

    /// Answers a command or a press. The address is the credential.
    pub(super) async fn respond(&self, url: &str, body: &Value) -> Result<(), Failure> {
        let Some(url) = Url::parse(url).ok().filter(|url| self.is_allowed(url)) else {
            return Err(Failure::File("the answer's address is not Slack's".into()));
        };
        let response = self.client.post(url).json(body).timeout(PATIENCE);
        let response = response.send().await?;
        if let Some(failure) = HttpFailure::redirected(&response) {
            return Err(failure.into());
        }
        let status = response.status();
        let body = response.bytes().await?;
        if status.is_success() {
            return Ok(());
        }
        let answer: Option<Value> = serde_json::from_slice(&body).ok();
        let error = answer.as_ref().and_then(|answer| answer["error"].as_str());
        Err(Failure::Refused {
            status: status.as_u16(),
            error: error
                .unwrap_or("the answer's address has expired")
                .to_owned(),
            needed: None,
            token: Token::None,
        })
    }

    /// The content of a file, with the token.
    pub(super) async fn file(&self, url: Url) -> Result<Response, Failure> {
        if !self.is_allowed(&url) {
            return Err(Failure::File("the file is not on Slack's servers".into()));
        }
        let request = self.client.get(url).bearer_auth(self.bot.expose_secret());
        let response = tokio::time::timeout(PATIENCE, request.send()).await;
        let response = response.map_err(|_| HttpFailure::silence(PATIENCE))??;
        if let Some(failure) = HttpFailure::redirected(&response) {
            return Err(failure.into());
        }
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(Failure::Refused {
                status: status.as_u16(),
                error: "the file cannot be fetched".into(),
                needed: None,
                token: Token::Bot,
            }),
        }
    }

    /// Uploads a file to an address that Slack has given for it.
    pub(super) async fn upload(
        &self,
        url: &str,
        body: reqwest::Body,
        length: u64,
    ) -> Result<(), Failure> {
        let Some(url) = Url::parse(url).ok().filter(|url| self.is_allowed(url)) else {
            return Err(Failure::File("the file's address is not Slack's".into()));
        };
        let request = self.client.post(url).timeout(UPLOAD_PATIENCE);
        let request = request
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(reqwest::header::CONTENT_LENGTH, length)
            .body(body);
        let response = request.send().await?;
        let status = response.status();
        match status.is_success() {
            true => Ok(()),
            // Nothing is shared yet, so another attempt does no harm.
            false => Err(HttpFailure::foreign(status.as_u16(), &response.bytes().await?).into()),
        }
    }

    fn post(&self, method: &str, token: Token) -> RequestBuilder {
        let root = self.root.as_str().trim_end_matches('/');
        let request = self.client.post(format!("{root}/api/{method}"));
        let token = match token {
            Token::App => &self.app,
            Token::Bot | Token::None => &self.bot,
        };
        request.bearer_auth(token.expose_secret()).timeout(PATIENCE)
    }

    async fn send(
        &self,
        request: RequestBuilder,
        token: Token,
    ) -> Result<(Value, HeaderMap), Failure> {
        let response = request.send().await?;
        if let Some(failure) = HttpFailure::redirected(&response) {
            return Err(failure.into());
        }
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.bytes().await?;
        let answer: Option<Value> = serde_json::from_slice(&body).ok();
        let error = answer.as_ref().and_then(|answer| answer["error"].as_str());
        if status == 429 || matches!(error, Some("ratelimited" | "rate_limited")) {
            return Err(Failure::Wait(pause(&headers)));
        }
        let Some(answer) = answer.filter(|answer| answer["ok"].is_boolean()) else {
            return Err(HttpFailure::foreign(status, &body).into());
        };
        if answer["ok"] == true {
            return Ok((answer, headers));
        }
        let text = |field: &str| answer[field].as_str().map(str::to_owned);
        Err(Failure::Refused {
            status,
            error: text("error").unwrap_or_else(|| "unknown".into()),
            needed: text("needed"),
            token,
        })
    }
}

fn is_vendor(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    host == "slack.com" || host.ends_with(".slack.com")
}

fn pause(headers: &HeaderMap) -> Duration {
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    let seconds = seconds.and_then(|text| text.parse::<u64>().ok());
    seconds.map_or(SOME_TIME, |seconds| {
        Duration::from_secs(seconds.clamp(1, 3600))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(base_url: Option<&str>) -> Api {
        let tokens = Tokens {
            bot: "xoxb-1".into(),
            app: "xapp-1".into(),
        };
        Api::new(Client::new(), tokens, base_url).unwrap()
    }

    #[test]
    fn a_token_goes_to_one_server_only() {
        let (vendor, other) = (api(None), api(Some("http://127.0.0.1:8080/api/")));
        for (url, by_vendor, by_other) in [
            ("https://files.slack.com/files-pri/x", true, false),
            ("https://slack.com/api/", true, false),
            ("http://files.slack.com/x", false, false),
            ("https://slack.com.example/x", false, false),
            ("https://evilslack.com/x", false, false),
            ("http://127.0.0.1:8080/files-pri/x", false, true),
            ("http://127.0.0.1:8081/files-pri/x", false, false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(vendor.is_allowed(&url), by_vendor, "{url}");
            assert_eq!(other.is_allowed(&url), by_other, "{url}");
        }
        for (url, by_vendor, by_other) in [
            ("wss://wss-primary.slack.com/link/?ticket=1", true, false),
            ("ws://wss-primary.slack.com/link/?ticket=1", false, false),
            ("wss://proxy.example/link", false, true),
            ("ws://127.0.0.1:8080/link", false, true),
            ("https://127.0.0.1:8080/link", false, false),
        ] {
            assert_eq!(vendor.allowed_socket(url).is_some(), by_vendor, "{url}");
            assert_eq!(other.allowed_socket(url).is_some(), by_other, "{url}");
        }
    }
}
