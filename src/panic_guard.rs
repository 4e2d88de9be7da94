//! Turns a panic into an error: it fails one turn, stage or connection, and the daemon continues.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

#[derive(Debug, thiserror::Error)]
#[error("it panicked, which is a bug in hermesd (see the daemon's log)")]
pub(crate) struct Panicked;

pub(crate) async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut work = std::pin::pin!(work);
    std::future::poll_fn(|context| {
        let poll = AssertUnwindSafe(|| work.as_mut().poll(context));
        match catch_unwind(poll) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    })
    .await
}
