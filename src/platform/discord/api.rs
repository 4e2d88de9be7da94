//! Calls Discord's REST API. Routes and buckets come from the SDK. Answers stay plain JSON, because a field that is new
//! to the SDK must not make a sent message look like a failed one.

use std::time::Duration;

use reqwest::{Client, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use serenity::http::{LightMethod, Request, Route};

use super::buckets::{Buckets, seconds};
use super::failure::Failure;
use crate::platform::BuildError;
use crate::platform::http_failure::HttpFailure;

/// The longest wait for an answer, except for uploads.
const PATIENCE: Duration = Duration::from_secs(30);
const UPLOAD_PATIENCE: Duration = Duration::from_secs(600);

type Bucket = (&'static str, serenity::http::RatelimitingBucket);

/// The API with a bot's token.
pub(super) struct Api {
    client: Client,
    /// With the word `Bot`.
    token: SecretString,
    /// The server instead of Discord's own, without a path.
    root: Option<String>,
    buckets: Buckets<Bucket>,
}

impl Api {
    /// `base_url` ends before `/api/v10`.
    pub(super) fn new(
        client: Client,
        token: &SecretString,
        base_url: Option<&str>,
    ) -> Result<Api, BuildError> {
        let root = base_url.map(|url| {
            let url = url.trim_end_matches('/');
            url.strip_suffix("/api/v10").unwrap_or(url).to_owned()
        });
        let is_url = |root: &String| {
            Url::parse(root).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        };
        if root.as_ref().is_some_and(|root| !is_url(root)) {
            return Err(BuildError("platforms.discord.base_url is not a URL".into()));
        }
        let token = token.expose_secret().trim();
        let token = token.strip_prefix("Bot ").unwrap_or(token);
        Ok(Api {
            client,
            token: format!("Bot {token}").into(),
            root,
            buckets: Buckets::default(),
        })
    }

    /// The token without the word before it.
    pub(super) fn bare_token(&self) -> &str {
        let token = self.token.expose_secret();
        token.strip_prefix("Bot ").unwrap_or(token)
    }

    /// Whether a file of this address belongs to Discord.
    pub(super) fn is_file_host(&self, url: &Url) -> bool {
        let root = self.root.as_ref().and_then(|root| Url::parse(root).ok());
        match root {
            Some(root) => {
                (root.scheme(), root.host_str(), root.port())
                    == (url.scheme(), url.host_str(), url.port())
            }
            None => {
                url.scheme() == "https"
                    && matches!(
                        url.host_str(),
                        Some("cdn.discordapp.com" | "media.discordapp.net")
                    )
            }
        }
    }

    pub(super) async fn get(&self, route: Route<'_>) -> Result<Value, Failure> {
        self.call(LightMethod::Get, route, None, None).await
    }

    pub(super) async fn get_with(
        &self,
        route: Route<'_>,
        params: Vec<(&'static str, String)>,
    ) -> Result<Value, Failure> {
        self.call(LightMethod::Get, route, None, Some(params)).await
    }

    pub(super) async fn post(&self, route: Route<'_>, body: &Value) -> Result<Value, Failure> {
        self.call(LightMethod::Post, route, Some(body), None).await
    }

    pub(super) async fn patch(&self, route: Route<'_>, body: &Value) -> Result<Value, Failure> {
        self.call(LightMethod::Patch, route, Some(body), None).await
    }

    pub(super) async fn put(&self, route: Route<'_>) -> Result<Value, Failure> {
        self.call(LightMethod::Put, route, None, None).await
    }

    pub(super) async fn delete(&self, route: Route<'_>) -> Result<Value, Failure> {
        self.call(LightMethod::Delete, route, None, None).await
    }

    async fn call(
        &self,
        method: LightMethod,
        route: Route<'_>,
        body: Option<&Value>,
        params: Option<Vec<(&'static str, String)>>,
    ) -> Result<Value, Failure> {
        let bucket = (method_name(method), route.ratelimiting_bucket());
        self.buckets.wait(&bucket).await.map_err(Failure::Wait)?;
        let body = body.map(|body| body.to_string().into_bytes());
        let request = Request::new(route, method).body(body).params(params);
        let request = self.built(request)?.timeout(PATIENCE);
        let response = request.send().await?;
        self.read(bucket, response).await
    }

    /// A call with a form. The caller has put the files into it.
    pub(super) async fn upload(
        &self,
        route: Route<'_>,
        form: reqwest::multipart::Form,
    ) -> Result<Value, Failure> {
        let bucket = ("POST", route.ratelimiting_bucket());
        self.buckets.wait(&bucket).await.map_err(Failure::Wait)?;
        let mut request = self.built(Request::new(route, LightMethod::Post))?;
        request = request.multipart(form).timeout(UPLOAD_PATIENCE);
        // The SDK says that there is no body.
        let mut request = request.build()?;
        request
            .headers_mut()
            .remove(reqwest::header::CONTENT_LENGTH);
        let response = self.client.execute(request).await?;
        self.read(bucket, response).await
    }

    /// The content of a file. The address has its own credential, so no token is sent.
    pub(super) async fn file(&self, url: Url) -> Result<Response, Failure> {
        let request = self.client.get(url).send();
        let response = tokio::time::timeout(PATIENCE, request).await;
        let response = response.map_err(|_| HttpFailure::silence(PATIENCE))??;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(Failure::Refused {
                status: status.as_u16(),
                code: 0,
                message: "the file cannot be fetched".into(),
            }),
        }
    }

    fn built(&self, request: Request<'_>) -> Result<reqwest::RequestBuilder, Failure> {
        let built = request.build(
            &self.client,
            self.token.expose_secret(),
            self.root.as_deref(),
        );
        built.map_err(|_| Failure::Refused {
            status: 400,
            code: 0,
            message: "the token or the address cannot be sent".into(),
        })
    }

    async fn read(&self, bucket: Bucket, response: Response) -> Result<Value, Failure> {
        let status = response.status();
        if let Some(failure) = HttpFailure::redirected(&response) {
            return Err(failure.into());
        }
        let headers = response.headers().clone();
        let body = response.bytes().await?;
        let answer = serde_json::from_slice::<Value>(&body).ok();
        if status.as_u16() == 429 {
            let said = answer
                .as_ref()
                .and_then(|answer| answer.get("retry_after")?.as_f64());
            let header = || {
                headers
                    .get("retry-after")?
                    .to_str()
                    .ok()?
                    .parse::<f64>()
                    .ok()
            };
            let pause = said.or_else(header).and_then(seconds);
            let pause = pause.unwrap_or(Duration::from_secs(1));
            let global = headers.contains_key("x-ratelimit-global")
                || answer
                    .as_ref()
                    .and_then(|answer| answer.get("global")?.as_bool())
                    == Some(true);
            self.buckets.refused(bucket, pause, global);
            return Err(Failure::Wait(pause));
        }
        self.buckets.answered(bucket, &headers);
        if status.is_success() {
            return match (body.is_empty(), answer) {
                (true, _) => Ok(Value::Null),
                (false, Some(answer)) => Ok(answer),
                (false, None) => Err(HttpFailure::foreign(status.as_u16(), &body).into()),
            };
        }
        let message = answer
            .as_ref()
            .and_then(|answer| answer.get("message")?.as_str());
        match (&answer, message) {
            (Some(answer), Some(message)) => Err(Failure::Refused {
                status: status.as_u16(),
                code: answer
                    .get("code")
                    .and_then(Value::as_u64)
                    .unwrap_or_default(),
                message: message.to_owned(),
            }),
            _ => Err(HttpFailure::foreign(status.as_u16(), &body).into()),
        }
    }
}

fn method_name(method: LightMethod) -> &'static str {
    match method {
        LightMethod::Delete => "DELETE",
        LightMethod::Get => "GET",
        LightMethod::Patch => "PATCH",
        LightMethod::Post => "POST",
        LightMethod::Put => "PUT",
    }
}
