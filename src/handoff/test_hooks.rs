//! Pauses a handoff before or after the commit of a stage, so that a test can kill the daemon there.
//!
//! Only debug builds have this. With `HERMESD_PAUSE_AT=before:bound` (or `after:bound`) the daemon writes the file
//! `paused` to its home there and does not continue that handoff.

use crate::domain::HandoffStage;
use std::path::Path;

/// Between the effect of a stage and its commit, or right after the commit.
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
