//! Handoffs that end without an event in this process (another program ended them) still end the waits for them. One look
//! for all who wait: thousands of them cost no more than one.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::ControlContext;

/// Events are news, the store is the truth: it is looked at this often.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

pub(super) async fn watch(context: Arc<ControlContext>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            () = stop.cancelled() => return,
        }
        let awaited = context.bus.awaited_endings();
        if awaited.is_empty() {
            continue;
        }
        match context.store.handoffs_in_flight().await {
            Ok(in_flight) => {
                let ended = awaited.into_iter().filter(|id| !in_flight.contains(id));
                ended.for_each(|id| context.bus.release(id));
            }
            Err(error) => tracing::debug!(%error, "waits for handoffs are looked at again later"),
        }
    }
}
