//! Stage `homed`: where on the platform this goes.

use super::Stage;
use super::pipeline::{Context, StageError};
use crate::store::Claim;

pub(super) async fn run(context: &Context, claim: &mut Claim) -> Result<(), StageError> {
    let platform = &claim.handoff.platform;
    let home = context.platforms.home(platform).ok_or_else(|| {
        StageError::Failed(format!("{platform} has no home channel: set platforms.{platform}.home_channel, or say /sethome in the chat"))
    })?;
    context.before(Stage::Homed).await;
    context.store.record_home(claim, &home).await?;
    claim.handoff.home = Some(home);
    Ok(())
}
