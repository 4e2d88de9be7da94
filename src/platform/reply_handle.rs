//! The right to answer one event of a platform.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

/// Answers one button press. On some platforms it is a credential: it stays in memory, and no log shows it.
#[derive(Clone)]
pub struct ReplyHandle {
    secret: SecretString,
    expires: Option<Instant>,
}

impl ReplyHandle {
    /// `lasts`: how long the platform accepts it from now on. `None`: the platform does not say.
    pub fn new(secret: impl Into<String>, lasts: Option<Duration>) -> ReplyHandle {
        ReplyHandle {
            secret: SecretString::from(secret.into()),
            expires: lasts.map(|lasts| Instant::now() + lasts),
        }
    }

    /// The credential or id to answer with. `None`: it has expired.
    pub fn secret(&self) -> Option<&str> {
        let expired = self.expires.is_some_and(|end| Instant::now() >= end);
        (!expired).then(|| self.secret.expose_secret())
    }
}

impl std::fmt::Debug for ReplyHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReplyHandle")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_handle_is_given_out_while_it_lasts_and_never_printed() {
        let handle = ReplyHandle::new("token-7", Some(Duration::from_secs(3)));
        assert_eq!(handle.secret(), Some("token-7"));
        assert!(!format!("{handle:?}").contains("token-7"));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(handle.secret(), None);
        let endless = ReplyHandle::new("token-8", None);
        tokio::time::advance(Duration::from_secs(9_000)).await;
        assert_eq!(endless.secret(), Some("token-8"));
    }
}
