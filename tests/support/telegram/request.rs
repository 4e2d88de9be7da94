//! Requests as they come: JSON, or forms with files. What is in them is brought into one shape and checked.

use axum::body::Bytes;
use axum::extract::multipart::MultipartError;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use serde_json::{Map, Value};

use super::rules::{self, Kind, Parameter, Refusal, bad};

/// A file that came with a request, under the name of its part.
#[derive(Debug, Clone)]
pub struct Upload {
    part: String,
    pub name: String,
    pub bytes: Bytes,
}

/// The parameters of a call, each of its kind.
#[derive(Debug, Clone, Default)]
pub struct Params {
    pub values: Map<String, Value>,
    uploads: Vec<Upload>,
}

impl Params {
    pub fn int(&self, name: &str) -> Option<i64> {
        self.values.get(name)?.as_i64()
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.as_str()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.values.get(name) == Some(&Value::Bool(true))
    }

    pub fn object(&self, name: &str) -> Option<&Map<String, Value>> {
        self.values.get(name)?.as_object()
    }

    pub fn list(&self, name: &str) -> Option<&Vec<Value>> {
        self.values.get(name)?.as_array()
    }

    /// What was uploaded for this parameter.
    pub fn upload(&self, name: &str) -> Option<&Upload> {
        let part = self.text(name)?.strip_prefix(ATTACHED)?;
        self.uploads.iter().find(|upload| upload.part == part)
    }
}

/// What a parameter says whose file is another part.
const ATTACHED: &str = "attach://";

/// The largest request that is taken.
pub const LARGEST: usize = 50 << 20;

/// The parameters as they were sent, and whether they are all text, as in forms.
async fn raw(request: Request) -> Result<(Params, bool), Refusal> {
    let kind = request.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().to_owned();
    let mut params = Params::default();
    if kind.starts_with("multipart/form-data") {
        let malformed = |e: MultipartError| match e.status().as_u16() {
            413 => Refusal::new(413, "Request Entity Too Large"),
            _ => bad(format!("can't parse the form: {}", e.body_text())),
        };
        let mut form = Multipart::from_request(request, &())
            .await
            .map_err(|e| bad(format!("can't parse the form: {e}")))?;
        while let Some(field) = form.next_field().await.map_err(malformed)? {
            let part = field.name().unwrap_or_default().to_owned();
            let name = field.file_name().map(str::to_owned);
            let bytes = field.bytes().await.map_err(malformed)?;
            let value = match name {
                Some(name) => {
                    let value = format!("{ATTACHED}{part}");
                    params.uploads.push(Upload {
                        part: part.clone(),
                        name,
                        bytes,
                    });
                    value
                }
                None => String::from_utf8(bytes.into())
                    .map_err(|_| bad("strings must be encoded in UTF-8"))?,
            };
            params.values.insert(part, Value::String(value));
        }
        return Ok((params, true));
    }
    let body = axum::body::to_bytes(request.into_body(), LARGEST).await;
    let body = body.map_err(|_| Refusal::new(413, "Request Entity Too Large"))?;
    if !body.is_empty() {
        if !kind.starts_with("application/json") {
            return Err(bad(format!("unsupported Content-Type \"{kind}\"")));
        }
        let object: Map<String, Value> = serde_json::from_slice(&body)
            .map_err(|e| bad(format!("can't parse the request as a JSON object: {e}")))?;
        params.values = object;
    }
    Ok((params, false))
}

/// Reads what a method wants. What is there is given even when it is refused, so that it can be recorded.
pub async fn read(
    method: &str,
    wanted: &[Parameter],
    request: Request,
) -> (Params, Result<(), Refusal>) {
    match raw(request).await {
        Ok((mut params, form)) => {
            let checked = check(method, wanted, &mut params, form);
            (params, checked)
        }
        Err(refusal) => (Params::default(), Err(refusal)),
    }
}

fn check(
    method: &str,
    wanted: &[Parameter],
    params: &mut Params,
    form: bool,
) -> Result<(), Refusal> {
    // A part that another one points to is no parameter.
    let attached: Vec<String> = params
        .values
        .values()
        .filter_map(|value| value.as_str()?.strip_prefix(ATTACHED).map(str::to_owned))
        .collect();
    let wants = |name: &str| wanted.iter().any(|(wanted, ..)| *wanted == name);
    params
        .values
        .retain(|name, _| wants(name) || !attached.contains(name) || is_alone(name, &attached));
    if let Some(name) = params.values.keys().find(|name| !wants(name)) {
        return Err(bad(format!("unknown parameter \"{name}\" of {method}")));
    }
    for (name, kind, needed) in wanted {
        let Some(value) = params.values.get_mut(*name) else {
            match (*needed, *name) {
                (false, _) => continue,
                (true, "chat_id") => return Err(bad("chat_id is empty")),
                (true, "text") if method.ends_with("Message") || method.ends_with("Text") => {
                    return Err(bad("message text is empty"));
                }
                (true, _) => return Err(bad(format!("parameter \"{name}\" is missing"))),
            }
        };
        if form {
            from_text(*kind, value);
        }
        let fits = match kind {
            Kind::Int => value.is_i64(),
            Kind::Chat => value.is_i64() || value.as_str().is_some_and(|v| v.starts_with('@')),
            Kind::Text | Kind::File => value.is_string(),
            Kind::Flag => value.is_boolean(),
            Kind::Object => value.is_object(),
            Kind::List => value.is_array(),
        };
        if !fits {
            return Err(bad(format!(
                "parameter \"{name}\" has to be of type {kind:?}, got {value}"
            )));
        }
    }
    rules::objects(method, params)
}

/// Whether only the part itself speaks of it: an upload that nothing asked for.
fn is_alone(name: &str, attached: &[String]) -> bool {
    attached.iter().filter(|part| *part == name).count() == 1
}

/// Forms have text only; what is not text is written as JSON.
fn from_text(kind: Kind, value: &mut Value) {
    if matches!(kind, Kind::Text | Kind::File) {
        return;
    }
    let meant = value.as_str().map(|text| match text {
        "True" => Ok(Value::Bool(true)),
        "False" => Ok(Value::Bool(false)),
        text => serde_json::from_str(text),
    });
    if let Some(Ok(meant)) = meant {
        *value = meant;
    }
}

/// The address as it was meant: clients encode slashes in the paths of files.
pub fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = (*first == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|code| std::str::from_utf8(code).ok())
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        rest = match code {
            Some(_) => &tail[2..],
            None => tail,
        };
        bytes.push(code.unwrap_or(*first));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
