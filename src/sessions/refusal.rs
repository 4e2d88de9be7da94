//! Why a request about a session is refused.

use crate::domain::RefusalKind;
use crate::store::StoreError;

/// Why a request is refused: a stable word for programs, a sentence and a remedy for people.
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

/// The answer to all that would begin new work while the daemon stops.
pub fn stopping() -> Refusal {
    Refusal {
        kind: RefusalKind::Stopping,
        message: "hermesd is stopping and begins no new work".to_owned(),
        hint: Some("ask again when it has started".to_owned()),
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
