//! The parameters of a request, JSON or form: brought into one shape and checked.

use axum::extract::Request;
use serde_json::{Map, Value};

use super::rules::{self, Kind, Parameter, bad};
use crate::support::fake::{BodyError, Refusal, RequestBody, Upload};

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

    /// The upload for this parameter.
    pub fn upload(&self, name: &str) -> Option<&Upload> {
        let part = self.text(name)?.strip_prefix(ATTACHED)?;
        self.uploads.iter().find(|upload| upload.part == part)
    }
}

/// The start of a value that names another part.
const ATTACHED: &str = "attach://";

/// The largest request, in bytes.
pub const LARGEST: usize = 50 << 20;

/// The parameters as they were sent, and whether they are all text, as in forms.
async fn raw(request: Request) -> Result<(Params, bool), Refusal> {
    let body = RequestBody::read(request, LARGEST).await;
    let mut body = body.map_err(|e| match e {
        BodyError::TooLarge => rules::refuse(413, "Request Entity Too Large"),
        BodyError::BadJson(why) => bad(format!("can't parse the request as a JSON object: {why}")),
        BodyError::BadForm(why) => bad(format!("can't parse the form: {why}")),
        BodyError::NotText => bad("strings must be encoded in UTF-8"),
        BodyError::UnknownContentType(kind) => bad(format!("unsupported Content-Type \"{kind}\"")),
    })?;
    for upload in &body.uploads {
        let value = Value::String(format!("{ATTACHED}{}", upload.part));
        body.fields.insert(upload.part.clone(), value);
    }
    let params = Params {
        values: body.fields,
        uploads: body.uploads,
    };
    Ok((params, body.is_form))
}

/// Reads and checks the parameters of a method. Gives them even if it refuses them, for the record.
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

/// Whether no parameter names this upload.
fn is_alone(name: &str, attached: &[String]) -> bool {
    attached.iter().filter(|part| *part == name).count() == 1
}

/// A form has text only. Other values are JSON in it.
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
