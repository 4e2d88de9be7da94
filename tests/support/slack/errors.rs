//! Refusals in Slack's format: status 200, and the name of the error in the body.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::fake::{Answer, Refusal};

/// An error with a name of Slack's list, and what else its answer says.
#[derive(Debug, Clone)]
pub struct ApiError {
    pub name: String,
    pub more: Value,
}

/// What a method gives: the fields of its answer beside `ok`.
pub type Answered = Result<Value, ApiError>;

impl From<&str> for ApiError {
    fn from(name: &str) -> ApiError {
        ApiError {
            name: name.to_owned(),
            more: json!({}),
        }
    }
}

impl ApiError {
    /// An error that says more for developers.
    pub fn with_messages(name: &str, messages: &[String]) -> ApiError {
        let told: Vec<String> = messages.iter().map(|m| format!("[ERROR] {m}")).collect();
        ApiError {
            name: name.to_owned(),
            more: json!({"response_metadata": {"messages": told}}),
        }
    }

    /// A required argument is not there.
    pub fn missing(argument: &str) -> ApiError {
        let told = format!("missing required field: {argument}");
        ApiError::with_messages("invalid_arguments", &[told])
    }

    /// An argument is not what it has to be.
    pub fn invalid(argument: &str, why: &str) -> ApiError {
        let told = format!("{why} [json-pointer:/{argument}]");
        ApiError::with_messages("invalid_arguments", &[told])
    }

    pub fn missing_scope(needed: &str, provided: &str) -> ApiError {
        ApiError {
            name: "missing_scope".to_owned(),
            more: json!({"needed": needed, "provided": provided}),
        }
    }

    pub fn body(&self) -> Value {
        let mut body = json!({"ok": false, "error": self.name});
        let more = self.more.as_object().expect("an object");
        body.as_object_mut()
            .expect("an object")
            .extend(more.clone());
        body
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Refusal {
        Refusal {
            answer: Answer::json(200, &error.body()),
            description: error.name,
        }
    }
}

/// A refusal with a status of its own, as of servers in trouble.
pub fn refuse(status: u16, name: &str) -> Refusal {
    Refusal {
        description: name.to_owned(),
        answer: Answer::json(status, &json!({"ok": false, "error": name})),
    }
}

/// The seconds are whole, as in the header.
pub fn rate_limited(retry_after: Duration) -> Refusal {
    let mut refusal = refuse(429, "ratelimited");
    let seconds = retry_after.as_secs_f64().ceil().max(1.0) as u64;
    let header = ("retry-after", seconds.to_string());
    refusal.answer.headers.push(header);
    refusal
}
