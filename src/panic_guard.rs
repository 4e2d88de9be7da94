//! A panic in one turn or one stage is that one's failure: whoever waits for it learns of it, and the rest goes on.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

#[derive(Debug, thiserror::Error)]
#[error("it panicked, which is a fault of hermesd; the log says where")]
pub(crate) struct Panicked;

pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
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
