//! Calls of the Web API as they arrive: arguments in the query, in a form or in JSON.

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::{Map, Value};

use super::errors::ApiError;
use super::methods::Method;
use crate::support::fake::{RequestBody, decode_path};

/// The largest request.
pub const LARGEST: usize = 100 << 20;

/// A call of a method.
pub struct Call {
    pub method: &'static Method,
    /// Without the token. What stands in a form is text.
    pub arguments: Map<String, Value>,
    /// The token of the header, or else that of the arguments.
    pub token: Option<String>,
    pub token_in_header: bool,
    pub by_post: bool,
    /// What is odd about the call and does no harm.
    pub warning: Option<&'static str>,
    /// The workspace of the token. Empty for the app's own.
    pub team: String,
}

/// The pairs of a query or of a form.
fn pairs(text: &str) -> Result<Vec<(String, String)>, ApiError> {
    let decode = |text: &str| decode_path(&text.replace('+', " "));
    let parts = text.split('&').filter(|part| !part.is_empty());
    let pairs = parts.map(|part| match part.split_once('=') {
        Some((name, value)) => Ok((decode(name), decode(value))),
        None => Ok((decode(part), String::new())),
    });
    pairs.collect()
}

impl Call {
    pub fn new(method: &'static Method) -> Call {
        Call {
            method,
            arguments: Map::new(),
            token: None,
            token_in_header: false,
            by_post: false,
            warning: None,
            team: String::new(),
        }
    }

    /// Reads all arguments.
    pub async fn read(&mut self, request: Request) -> Result<(), ApiError> {
        let headers = request.headers();
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
        let bearer = bearer.map(|token| token.trim().to_owned());
        let kind: Option<String> = text(CONTENT_TYPE).map(str::to_owned);
        self.by_post = request.method() == "POST";
        let query = pairs(request.uri().query().unwrap_or_default())?;
        self.arguments
            .extend(query.into_iter().map(|(name, value)| (name, value.into())));
        let read = match self.by_post {
            true => {
                self.read_body(request, kind.as_deref().unwrap_or_default())
                    .await
            }
            false => Ok(()),
        };
        let argument = self.arguments.remove("token");
        self.token_in_header = bearer.is_some();
        self.token = bearer.or(argument.and_then(|token| Some(token.as_str()?.to_owned())));
        read?;
        self.check_names()
    }

    async fn read_body(&mut self, request: Request, kind: &str) -> Result<(), ApiError> {
        let (media, charset) = match kind.split_once(';') {
            Some((media, rest)) => (media.trim(), rest.trim().strip_prefix("charset=")),
            None => (kind.trim(), None),
        };
        let charset = charset.map(|name| name.trim_matches('"').to_lowercase());
        if charset
            .as_ref()
            .is_some_and(|c| c != "utf-8" && c != "iso-8859-1")
        {
            return Err("invalid_charset".into());
        }
        if media == "multipart/form-data" {
            let form = RequestBody::read(request, LARGEST).await;
            let form = form.map_err(|_| ApiError::from("invalid_form_data"))?;
            self.arguments.extend(form.fields);
            return Ok(());
        }
        let bytes = axum::body::to_bytes(request.into_body(), LARGEST).await;
        let bytes = bytes.map_err(|_| ApiError::from("request_timeout"))?;
        match media {
            "" if bytes.is_empty() => Ok(()),
            "" => Err("missing_post_type".into()),
            "application/x-www-form-urlencoded" => {
                let form = std::str::from_utf8(&bytes);
                let form = form.map_err(|_| ApiError::from("invalid_form_data"))?;
                let form = pairs(form)?;
                self.warning = charset.and(Some("superfluous_charset"));
                self.arguments
                    .extend(form.into_iter().map(|(name, value)| (name, value.into())));
                Ok(())
            }
            "application/json" => {
                self.warning = charset.is_none().then_some("missing_charset");
                self.read_json(&bytes)
            }
            "text/plain" => Ok(()),
            _ => Err("invalid_post_type".into()),
        }
    }

    /// A method that takes no JSON sees no argument in it. A token in it is none.
    fn read_json(&mut self, bytes: &[u8]) -> Result<(), ApiError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let body: Value =
            serde_json::from_slice(bytes).map_err(|_| ApiError::from("invalid_json"))?;
        let Value::Object(mut body) = body else {
            return Err("json_not_object".into());
        };
        body.remove("token");
        body.retain(|_, value| !value.is_null());
        if self.method.takes_json {
            self.arguments.extend(body);
        }
        Ok(())
    }

    fn check_names(&self) -> Result<(), ApiError> {
        for name in self.arguments.keys() {
            if name.contains('[') {
                return Err("invalid_array_arg".into());
            }
            let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_plain || name.len() > 100 {
                return Err("invalid_arg_name".into());
            }
        }
        Ok(())
    }

    /// All required arguments are there. They may be empty.
    pub fn check_required(&self) -> Result<(), ApiError> {
        let mut required = self.method.required.iter();
        let missing = required.find(|name| !self.arguments.contains_key(**name));
        missing.map_or(Ok(()), |name| Err(ApiError::missing(name)))
    }

    /// An argument as text. Numbers count as text, as they do in a form.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.arguments.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(is) => Some(is.to_string()),
            _ => None,
        }
    }

    /// A required argument as text.
    pub fn need(&self, name: &str) -> Result<String, ApiError> {
        self.text(name).ok_or_else(|| ApiError::missing(name))
    }

    /// An argument that is there and not empty.
    pub fn filled(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty())
    }

    pub fn flag(&self, name: &str) -> bool {
        matches!(self.text(name).as_deref(), Some("true" | "1" | "True"))
    }

    /// A list or an object, which is text in a form. `Err` is text that is no JSON.
    pub fn json(&self, name: &str) -> Result<Option<Value>, ()> {
        match self.arguments.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => serde_json::from_str(text).map(Some).map_err(|_| ()),
            Some(value) => Ok(Some(value.clone())),
        }
    }

    /// How many items a page has.
    pub fn limit(&self, default: usize, most: usize) -> Result<usize, ApiError> {
        match self.filled("limit") {
            None => Ok(default),
            Some(limit) => match limit.parse() {
                Ok(0) => Ok(default),
                Ok(limit) if limit <= most => Ok(limit),
                _ => Err("invalid_limit".into()),
            },
        }
    }
}
