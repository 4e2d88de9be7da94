//! Stage `threaded`: a fresh thread in the home, or the home chat itself when the platform has or grants none.

use std::time::Duration;

use super::Stage;
use super::pipeline::{Context, StageError};
use crate::platform::{Opened, PlatformError};
use crate::store::Claim;

const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run(context: &Context, claim: &mut Claim) -> Result<(), StageError> {
    let (platform, home) = (
        context.adapter(&claim.handoff)?,
        claim.handoff.home.clone().ok_or_else(StageError::damaged)?,
    );
    let session = context.session(claim).await?;
    let title = format!("Hermes — {}", session.name());
    let open_key = format!("handoff:{}", claim.handoff.id);
    let opened = if platform.capabilities().threads {
        match tokio::time::timeout(PATIENCE, platform.open_thread(&home, &title, &open_key)).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(PlatformError::Permanent(reason) | PlatformError::Transient { reason, .. })) => {
                return Err(StageError::Failed(format!(
                    "no thread could be opened on {}: {reason}",
                    platform.name()
                )));
            }
            Err(_) => {
                return Err(StageError::Failed(format!(
                    "{} did not open a thread within {} s",
                    platform.name(),
                    PATIENCE.as_secs()
                )));
            }
        }
    } else {
        Opened::Chat {
            reason: format!("{} has no threads", platform.name()),
        }
    };
    context.before(Stage::Threaded).await;
    context.store.record_thread(claim, &opened).await?;
    claim.handoff.thread = Some(opened);
    Ok(())
}
