//! What feeds the service manager's watchdog: answers of the store, be it that it is busy.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::support::{Home, SESSION, Wire, seed_session, until};

/// A service manager's socket, and how often its watchdog was fed. A manager always reads: one that did not would stop
/// the daemon.
fn watchdog(home: &Home) -> (String, Arc<AtomicUsize>) {
    let path = home.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    let feeds = Arc::<AtomicUsize>::default();
    let counted = feeds.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length) = manager.recv(&mut buffer) {
            if buffer[..length].starts_with(b"WATCHDOG=1") {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    (path.display().to_string(), feeds)
}

#[tokio::test]
async fn a_locked_database_does_not_starve_the_watchdog() {
    let home = Home::new();
    seed_session(&home).await;
    let (path, feeds) = watchdog(&home);
    let daemon = home.start_with(&[
        ("NOTIFY_SOCKET", &path),
        ("WATCHDOG_USEC", "30000000"),
        ("HERMESD_PAUSE_AT", "before:answered"),
        // Each pass wants to write.
        ("HERMESD_HANDOFF_LEASE", "3s"),
    ]);
    let mut wire = Wire::greeted(&home.socket());
    let wish = json!({"platform": "local", "session": SESSION});
    wire.ask("handoff.request", wish);
    home.until_paused();
    let other = home.sqlite();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    until("the queue meets the lock", || {
        daemon
            .log()
            .contains("locked by another program")
            .then_some(())
    });
    let before = feeds.load(Ordering::Relaxed);
    until("the watchdog is fed", || {
        (feeds.load(Ordering::Relaxed) > before).then_some(())
    });
    other.execute_batch("COMMIT").unwrap();
}
