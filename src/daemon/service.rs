//! Reports to the service manager. Without one, these functions do nothing.

use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::CancellationToken;

use crate::events::{Event, PublishedEvent};
use crate::platform::{ConnectionState, PlatformStatus, Platforms};

/// The watchdog timeout of the service manager, if it has one.
pub(super) fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

/// Returns the function that feeds the watchdog. Call it when the store has answered the queue, and only then. It
/// limits its own rate.
pub(super) fn progress(watchdog: Option<Duration>) -> impl Fn() + Send + Sync {
    let fed: Mutex<Option<Instant>> = Mutex::default();
    move || {
        let (Some(watchdog), Ok(mut fed)) = (watchdog, fed.lock()) else {
            return;
        };
        if fed.is_none_or(|fed| fed.elapsed() > watchdog / 20) {
            *fed = Some(Instant::now());
            notify(&[NotifyState::Watchdog]);
        }
    }
}

/// Reports that the start takes up to `longer` from now.
pub(super) fn starting(longer: Duration) {
    let micros = u32::try_from(longer.as_micros()).unwrap_or(u32::MAX);
    notify(&[
        NotifyState::Status("Waiting for the database, which another program has locked"),
        NotifyState::ExtendTimeoutUsec(micros),
    ]);
}

pub(super) fn ready(home: &Path) {
    let status = format!("Ready, serving {}", home.display());
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

pub(super) fn reloading() {
    let mut state = vec![NotifyState::Reloading];
    state.extend(NotifyState::monotonic_usec_now());
    notify(&state);
}

pub(super) fn reloaded(platforms: &[PlatformStatus], error: Option<&str>) {
    let mut status = status_line(platforms);
    if let Some(error) = error {
        status.push_str(&format!("; not reloaded: {error}"));
    }
    notify(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

pub(super) fn stopping(drain: Duration) {
    let micros = u32::try_from(drain.as_micros() + 5_000_000).unwrap_or(u32::MAX);
    notify(&[
        NotifyState::Stopping,
        NotifyState::Status("Finishing work in progress"),
        NotifyState::ExtendTimeoutUsec(micros),
    ]);
}

/// Updates the status line whenever the state of a platform changes.
pub(super) async fn publish_status(
    platforms: Platforms,
    mut events: Receiver<std::sync::Arc<PublishedEvent>>,
    stop: CancellationToken,
) {
    loop {
        notify(&[NotifyState::Status(&status_line(&platforms.all()))]);
        let changed = async {
            loop {
                match events.recv().await {
                    Ok(published) if matches!(published.event, Event::PlatformChanged { .. }) => {
                        return;
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return,
                    Err(RecvError::Closed) => return std::future::pending().await,
                }
            }
        };
        tokio::select! {
            () = changed => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Names the platforms that are up, and those that are degraded or down with the reason.
fn status_line(platforms: &[PlatformStatus]) -> String {
    let up = platforms.iter().filter(|p| p.state == ConnectionState::Up);
    let up: Vec<&str> = up.map(|p| p.name.as_str()).collect();
    let mut line = match up.is_empty() {
        true => "Ready, no platform up".to_owned(),
        false => format!("Ready, up: {}", up.join(", ")),
    };
    for platform in platforms {
        if matches!(
            platform.state,
            ConnectionState::Degraded | ConnectionState::Down
        ) {
            let detail = platform.detail.as_deref().unwrap_or("no reason known");
            let state = platform.state.as_str();
            line.push_str(&format!("; {} {state}: {detail}", platform.name));
        }
    }
    line
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_says_what_is_up_and_what_is_wrong_with_the_rest() {
        let platform = |name: &str, state, detail: Option<&str>| PlatformStatus {
            name: name.into(),
            state,
            detail: detail.map(str::to_owned),
            home: None,
            owner: None,
            configured: true,
            since: 0.0,
        };
        let line = status_line(&[
            platform("local", ConnectionState::Up, None),
            platform("telegram", ConnectionState::Degraded, Some("conflict")),
            platform("discord", ConnectionState::Off, Some("no token")),
            platform("slack", ConnectionState::Down, Some("wrong token")),
        ]);
        assert_eq!(
            line,
            "Ready, up: local; telegram degraded: conflict; slack down: wrong token"
        );
        assert_eq!(status_line(&[]), "Ready, no platform up");
    }
}
