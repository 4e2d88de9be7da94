//! Failures of an HTTP call that the vendor has not answered itself. All adapters judge them in the same way.

use std::time::Duration;

use reqwest::Response;

use super::PlatformError;
use super::context::root_cause;

/// How many characters of a foreign page are shown.
const SHOWN: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HttpFailure {
    /// The answer is not from the vendor, but from a proxy, a balancer or a portal in front of it.
    Foreign { status: u16, beginning: String },
    /// The server redirects to this host. Redirects are not followed, because the call has a credential.
    Redirected { status: u16, host: String },
    /// No answer, or only a part of one.
    Network { reason: String, unsure: bool },
}

impl HttpFailure {
    pub(super) fn foreign(status: u16, body: &[u8]) -> HttpFailure {
        let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = text.chars().filter(|c| !c.is_control()).take(SHOWN);
        HttpFailure::Foreign {
            status,
            beginning: shown.collect(),
        }
    }

    /// The failure of an answer that redirects. Only the host is kept, because the address may contain a token.
    pub(super) fn redirected(response: &Response) -> Option<HttpFailure> {
        let status = response.status();
        if !status.is_redirection() {
            return None;
        }
        let to = response.headers().get(reqwest::header::LOCATION);
        let to = to.and_then(|to| response.url().join(to.to_str().ok()?).ok());
        let host = to.as_ref().and_then(|to| {
            let port = to.port().map_or(String::new(), |port| format!(":{port}"));
            Some(format!("{}{port}", to.host_str()?))
        });
        Some(HttpFailure::Redirected {
            status: status.as_u16(),
            host: host.unwrap_or_else(|| "nowhere".into()),
        })
    }

    pub(super) fn silence(patience: Duration) -> HttpFailure {
        HttpFailure::Network {
            reason: format!("no answer within {} s", patience.as_secs()),
            unsure: true,
        }
    }

    /// `vendor` is the name that people know, `base_url` the setting with the address.
    pub(super) fn into_error(self, vendor: &str, base_url: &str) -> PlatformError {
        let (reason, unsure) = match self {
            HttpFailure::Foreign { status, beginning } => (
                format!(
                    "a server in front of {vendor} answers with HTTP status {status}: {beginning}"
                ),
                // With a status of 4xx the call had no effect. With any other it may have had one.
                !(400..500).contains(&status),
            ),
            HttpFailure::Redirected { status, host } => (
                format!(
                    "the server redirects to {host} (HTTP status {status}), and redirects are not followed: \
                     set {base_url} to the address of {vendor}'s API itself"
                ),
                false,
            ),
            HttpFailure::Network { reason, unsure } => {
                (format!("{vendor} cannot be reached: {reason}"), unsure)
            }
        };
        PlatformError::Transient {
            reason,
            retry_after: None,
            unsure,
        }
    }
}

impl From<reqwest::Error> for HttpFailure {
    fn from(error: reqwest::Error) -> HttpFailure {
        HttpFailure::Network {
            reason: root_cause(&error),
            // After the connection is made, the request may have arrived although no answer did.
            unsure: !error.is_connect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_others_pass_and_are_doubtful_only_behind_success() {
        for (status, expected) in [
            (200, true),
            (403, false),
            (404, false),
            (502, true),
            (520, true),
        ] {
            let failure = HttpFailure::foreign(status, b"<html>\n <p>\x07");
            let error = failure.into_error("Telegram", "base_url");
            let PlatformError::Transient { reason, unsure, .. } = error else {
                panic!("{status} is final");
            };
            assert_eq!(unsure, expected, "{status}");
            assert!(reason.ends_with(": <html> <p>"), "{reason}");
        }
    }
}
