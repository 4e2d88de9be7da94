//! The refusals of requests about sessions.

use crate::domain::RefusalKind;
use crate::store::StoreError;

/// A refused request: a stable code for programs, a sentence and a remedy for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub kind: RefusalKind,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The refusal of new work while the daemon stops.
pub fn stopping() -> Refusal {
    Refusal {
        kind: RefusalKind::Stopping,
        message: "hermesd is stopping and accepts no new work".to_owned(),
        hint: Some("try again after it has started".to_owned()),
    }
}

pub(crate) fn refuse(
    kind: RefusalKind,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> RequestError {
    let hint = Some(hint.into()).filter(|h: &String| !h.is_empty());
    RequestError::Refused(Refusal {
        kind,
        message: message.into(),
        hint,
    })
}
