//! Shows on a terminal what takes longer than half a second, and for how long.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

use super::output::Output;
use super::pick;
use super::visible::in_one_line;

/// What is faster than this shows nothing.
const DELAY: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(100);

/// Erased when dropped.
pub(super) struct Spinner {
    running: Option<(ProgressBar, JoinHandle<()>)>,
}

impl Spinner {
    /// Shows nothing with `--json`, without a terminal, and on a dumb one.
    pub(super) fn start(out: &Output, stage: &str) -> Spinner {
        if !pick::can_ask(out) {
            return Spinner { running: None };
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(in_one_line(stage));
        let later = bar.clone();
        let begin = tokio::spawn(async move {
            tokio::time::sleep(DELAY).await;
            later.set_draw_target(ProgressDrawTarget::stderr());
            later.enable_steady_tick(TICK);
        });
        Spinner {
            running: Some((bar, begin)),
        }
    }

    pub(super) fn stage(&self, stage: &str) {
        if let Some((bar, _)) = &self.running {
            bar.set_message(in_one_line(stage));
        }
    }

    /// Prints while the spinner is not there.
    pub(super) fn beside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.running {
            Some((bar, _)) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        if let Some((bar, begin)) = self.running.take() {
            begin.abort();
            bar.finish_and_clear();
        }
    }
}
