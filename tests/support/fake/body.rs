//! Requests as they arrive: JSON, or forms with files.

use axum::body::Bytes;
use axum::extract::multipart::MultipartError;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use serde_json::{Map, Value};

/// A file of a form.
#[derive(Debug, Clone)]
pub struct Upload {
    /// The name of its part.
    pub part: String,
    pub name: String,
    pub bytes: Bytes,
}

#[derive(Debug, Clone, Default)]
pub struct RequestBody {
    /// The fields of the object or of the form. In a form all of them are text.
    pub fields: Map<String, Value>,
    pub uploads: Vec<Upload>,
    pub is_form: bool,
}

#[derive(Debug)]
pub enum BodyError {
    TooLarge,
    BadJson(String),
    BadForm(String),
    /// A field of a form that is no UTF-8.
    NotText,
    UnknownContentType(String),
}

impl RequestBody {
    /// Reads at most `largest` bytes of JSON. The limit of forms is axum's `DefaultBodyLimit`.
    pub async fn read(request: Request, largest: usize) -> Result<RequestBody, BodyError> {
        let kind = request.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        if kind.starts_with("multipart/form-data") {
            return RequestBody::read_form(request).await;
        }
        let bytes = axum::body::to_bytes(request.into_body(), largest).await;
        let bytes = bytes.map_err(|_| BodyError::TooLarge)?;
        let mut body = RequestBody::default();
        if !bytes.is_empty() {
            if !kind.starts_with("application/json") {
                return Err(BodyError::UnknownContentType(kind));
            }
            let fields = serde_json::from_slice(&bytes);
            body.fields = fields.map_err(|e| BodyError::BadJson(e.to_string()))?;
        }
        Ok(body)
    }

    async fn read_form(request: Request) -> Result<RequestBody, BodyError> {
        let malformed = |e: MultipartError| match e.status().as_u16() {
            413 => BodyError::TooLarge,
            _ => BodyError::BadForm(e.body_text()),
        };
        let form = Multipart::from_request(request, &()).await;
        let mut form = form.map_err(|e| BodyError::BadForm(e.to_string()))?;
        let mut body = RequestBody {
            is_form: true,
            ..RequestBody::default()
        };
        while let Some(field) = form.next_field().await.map_err(malformed)? {
            let part = field.name().unwrap_or_default().to_owned();
            let name = field.file_name().map(str::to_owned);
            let bytes = field.bytes().await.map_err(malformed)?;
            match name {
                Some(name) => body.uploads.push(Upload { part, name, bytes }),
                None => {
                    let text = String::from_utf8(bytes.into());
                    let text = text.map_err(|_| BodyError::NotText)?;
                    body.fields.insert(part, Value::String(text));
                }
            }
        }
        Ok(body)
    }
}

/// The path without percent signs: some clients encode the slashes in the path of a file.
pub fn decode_path(path: &str) -> String {
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
