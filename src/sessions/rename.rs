//! Changes the title of a session.

use crate::domain::{RefusalKind, Session, title};
use crate::sessions::resolve;
use crate::sessions::{Refusal, RequestError};
use crate::store::{Store, StoreError};

/// Sets or removes (empty) the title. A title that a hidden row of the same conversation has moves to this row.
pub async fn rename(store: &Store, name: &str, wanted: &str) -> Result<Session, RequestError> {
    let session = resolve(store, name)?;
    let wanted = title::clean(wanted).map_err(|too_long| Refusal {
        kind: RefusalKind::TitleTooLong,
        message: too_long.to_string(),
        hint: Some("shorten it".into()),
    })?;
    match store.rename_session(&session.id, wanted.as_deref()).await {
        Ok(()) => resolve(store, &session.id),
        Err(StoreError::Conflict(message)) => Err(RequestError::Refused(Refusal {
            kind: RefusalKind::TitleTaken,
            message,
            hint: Some("choose another, or rename that session first".into()),
        })),
        Err(error) => Err(error.into()),
    }
}
