//! What a fake sends back.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

/// An answer that is ready to be sent.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
}

impl Answer {
    pub fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Answer {
        Answer {
            status,
            headers: vec![(CONTENT_TYPE.as_str(), content_type.to_owned())],
            body: body.into(),
        }
    }

    pub fn json(status: u16, body: &Value) -> Answer {
        Answer::new(status, "application/json", body.to_string())
    }

    /// The page of a proxy that reaches no server behind it.
    pub fn proxy_page(status: u16) -> Answer {
        let title = StatusCode::from_u16(status).expect("a status");
        let page = format!(
            "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n\
             <hr><center>nginx/1.18.0</center>\r\n</body>\r\n</html>\r\n"
        );
        Answer::new(status, "text/html; charset=utf-8", page)
    }

    pub fn redirect(to: String) -> Answer {
        Answer {
            status: 302,
            headers: vec![(LOCATION.as_str(), to)],
            body: Bytes::new(),
        }
    }

    /// Sends another body with the same head.
    pub fn with_body(self, body: Body) -> Response {
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        response.body(body).expect("a status and headers")
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let body = Body::from(self.body.clone());
        self.with_body(body)
    }
}

/// A call that is not done: the answer, and the reason for the record.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub description: String,
    pub answer: Answer,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.answer.into_response()
    }
}

/// A call that is done: the answer, and the result for the record.
#[derive(Debug, Clone)]
pub struct Done {
    pub result: Value,
    pub answer: Answer,
}
