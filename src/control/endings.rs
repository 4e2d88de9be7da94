//! Ends the waits for handoffs that another program has ended, which publishes no event here. One query serves all
//! waits.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::ControlContext;

/// The interval between queries.
const INTERVAL: Duration = Duration::from_secs(2);

pub(super) async fn watch(context: Arc<ControlContext>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
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
            Err(error) => tracing::debug!(%error, "cannot read handoffs in flight, will retry"),
        }
    }
}
