//! A place to stop for the tests that kill a daemon between two steps.
//!
//! Only debug builds have it: `HERMESD_PAUSE_AT=before:bound` (or `after:bound`) makes the daemon write
//! `paused` into its home there and go no further with that handoff. A release build contains none of this.

use crate::domain::HandoffStage;
use std::path::Path;

/// Between doing a thing and committing it, or right behind the commit.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    Before,
    After,
}

#[cfg(debug_assertions)]
pub async fn point(side: Side, stage: HandoffStage, home: &Path) {
    let side = match side {
        Side::Before => "before",
        Side::After => "after",
    };
    let here = format!("{side}:{}", stage.as_str());
    if std::env::var("HERMESD_PAUSE_AT").is_ok_and(|wanted| wanted == here) {
        tracing::warn!(here, "paused for a test");
        let _ = std::fs::write(home.join("paused"), here);
        std::future::pending::<()>().await;
    }
}

#[cfg(not(debug_assertions))]
pub async fn point(_side: Side, _stage: HandoffStage, _home: &Path) {
    std::future::ready(()).await;
}
