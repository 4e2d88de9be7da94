//! The routes of the REST API, and the requests to them.

use std::collections::BTreeMap;

use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use super::errors;
use super::form::Form;
use super::world::Id;
use crate::support::fake::{BodyError, Refusal, RequestBody, Upload, decode_path};

/// The largest request.
pub const LARGEST: usize = 25 << 20;

/// All routes. `{}` stands for one part of the path.
const ROUTES: &[&str] = &[
    "GET /gateway",
    "GET /gateway/bot",
    "GET /users/@me",
    "GET /users/@me/guilds",
    "POST /users/@me/channels",
    "GET /users/{}",
    "GET /guilds/{}",
    "GET /guilds/{}/channels",
    "GET /guilds/{}/roles",
    "GET /guilds/{}/members/search",
    "GET /guilds/{}/members/{}",
    "GET /guilds/{}/threads/active",
    "GET /channels/{}",
    "PATCH /channels/{}",
    "DELETE /channels/{}",
    "POST /channels/{}/threads",
    "POST /channels/{}/messages/{}/threads",
    "GET /channels/{}/thread-members",
    "GET /channels/{}/thread-members/{}",
    "PUT /channels/{}/thread-members/{}",
    "DELETE /channels/{}/thread-members/{}",
    "GET /channels/{}/messages",
    "POST /channels/{}/messages",
    "GET /channels/{}/messages/{}",
    "PATCH /channels/{}/messages/{}",
    "DELETE /channels/{}/messages/{}",
    "PUT /channels/{}/messages/{}/reactions/{}/@me",
    "DELETE /channels/{}/messages/{}/reactions/{}/@me",
    "POST /channels/{}/typing",
    "GET /applications/@me",
    "GET /oauth2/applications/@me",
    "GET /applications/{}/commands",
    "POST /applications/{}/commands",
    "PUT /applications/{}/commands",
    "DELETE /applications/{}/commands/{}",
    "GET /applications/{}/guilds/{}/commands",
    "POST /applications/{}/guilds/{}/commands",
    "PUT /applications/{}/guilds/{}/commands",
    "POST /interactions/{}/{}/callback",
    "POST /webhooks/{}/{}",
    "GET /webhooks/{}/{}/messages/@original",
    "PATCH /webhooks/{}/{}/messages/@original",
    "DELETE /webhooks/{}/{}/messages/@original",
];

/// A request to a route.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The method and the path with `{}` in it.
    pub name: &'static str,
    /// What stands in the path for each `{}`.
    pub parts: Vec<String>,
    pub query: BTreeMap<String, String>,
    /// An object, or a list where the route takes one.
    pub body: Value,
    pub uploads: Vec<Upload>,
}

/// The parts of a path that fit a route.
fn fit(route: &str, path: &[String]) -> Option<Vec<String>> {
    let wanted: Vec<&str> = route.split('/').collect();
    if wanted.len() != path.len() {
        return None;
    }
    let mut parts = Vec::new();
    for (wanted, part) in wanted.iter().zip(path) {
        match *wanted {
            "{}" => parts.push(part.clone()),
            wanted if wanted == part => {}
            _ => return None,
        }
    }
    Some(parts)
}

impl Call {
    /// The route of a request, without the body yet.
    pub fn of(request: &Request) -> Result<Call, Refusal> {
        let path = request.uri().path().strip_prefix("/api/v10");
        let path = path.ok_or(errors::NOT_FOUND)?;
        let path: Vec<String> = path.split('/').map(decode_path).collect();
        let fitting = ROUTES.iter().filter_map(|name| {
            let (method, route) = name.split_once(' ').expect("a method and a path");
            Some((method, name, fit(route, &path)?))
        });
        let fitting: Vec<_> = fitting.collect();
        let mut with_method = fitting.iter();
        let Some((_, name, parts)) = with_method.find(|f| f.0 == request.method().as_str()) else {
            return Err(match fitting.is_empty() {
                true => errors::NOT_FOUND.into(),
                false => errors::WRONG_METHOD.into(),
            });
        };
        let query = request.uri().query().unwrap_or_default().split('&');
        let query = query.filter_map(|pair| pair.split_once('='));
        let decode = |text: &str| decode_path(&text.replace('+', " "));
        Ok(Call {
            name,
            parts: parts.clone(),
            query: query.map(|(k, v)| (decode(k), decode(v))).collect(),
            body: json!({}),
            uploads: Vec::new(),
        })
    }

    /// Reads the body. JSON, or a form with the JSON in `payload_json` and the files in `files[n]`.
    pub async fn read(&mut self, request: Request) -> Result<(), Refusal> {
        let kind = request.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("multipart/form-data") {
            let is_json = kind.starts_with("application/json");
            let bytes = axum::body::to_bytes(request.into_body(), LARGEST).await;
            let bytes = bytes.map_err(|_| errors::TOO_LARGE)?;
            return match (bytes.is_empty(), is_json) {
                (true, _) => Ok(()),
                (false, false) => Err(wrong_content_type()),
                (false, true) => self.parse(&bytes),
            };
        }
        let form = RequestBody::read(request, LARGEST).await;
        let form = form.map_err(|e| match e {
            BodyError::TooLarge => errors::TOO_LARGE.into(),
            _ => wrong_content_type(),
        })?;
        if let Some(json) = form.fields.get("payload_json").and_then(Value::as_str) {
            self.parse(json.as_bytes())?;
        }
        for upload in &form.uploads {
            let number = upload.part.strip_prefix("files[");
            let number = number.and_then(|n| n.strip_suffix(']')?.parse::<u64>().ok());
            if number.is_none() {
                let mut form = Form::default();
                form.add(&upload.part, "UNKNOWN_PART", "Files are parts files[n].");
                form.check()?;
            }
        }
        self.uploads = form.uploads;
        Ok(())
    }

    fn parse(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.body = serde_json::from_slice(bytes).map_err(|_| errors::INVALID_JSON)?;
        // Bulk overwrites take a list, all others an object.
        let takes_list = self.name.starts_with("PUT /applications");
        match self.body.is_array() == takes_list && (takes_list || self.body.is_object()) {
            true => Ok(()),
            false => {
                let mut form = Form::default();
                let told = "Only dictionaries may be used in a DictType";
                form.add("", "DICT_TYPE_CONVERT", told);
                form.check()
            }
        }
    }

    pub fn fields(&self) -> &Map<String, Value> {
        self.body.as_object().expect("checked when it was read")
    }

    /// An id in the path.
    pub fn id(&self, part: usize) -> Result<Id, Refusal> {
        let text = &self.parts[part];
        text.parse().map_err(|_| {
            let mut form = Form::default();
            let told = format!("Value \"{text}\" is not snowflake.");
            form.add("id", "NUMBER_TYPE_COERCE", told);
            form.check().expect_err("an error was added")
        })
    }

    /// The part of the path that has a rate limit of its own.
    pub fn major(&self) -> String {
        let path = self.name.split_once('/').expect("a path").1;
        match path.split('/').next() {
            Some("channels" | "guilds") => self.parts.first().cloned().unwrap_or_default(),
            Some("webhooks") => self.parts[..2].join("/"),
            _ => String::new(),
        }
    }

    /// Answers to interactions need no token, and have no global limit.
    pub fn is_interaction(&self) -> bool {
        ["/interactions/", "/webhooks/"]
            .iter()
            .any(|start| self.name.contains(start))
    }

    /// What the record of calls has.
    pub fn recorded(&self) -> Value {
        let files: Vec<&String> = self.uploads.iter().map(|upload| &upload.name).collect();
        json!({"parts": self.parts, "query": self.query, "body": self.body, "files": files})
    }
}

fn wrong_content_type() -> Refusal {
    let mut form = Form::default();
    let told = "Expected \"Content-Type\" header to be one of {'application/json'}.";
    form.add("", "CONTENT_TYPE_INVALID", told);
    form.check().expect_err("an error was added")
}
