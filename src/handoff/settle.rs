//! Stage `settled`: the row says completed.

use super::Stage;
use super::pipeline::{Context, StageError};
use crate::store::Claim;

pub(super) async fn run(context: &Context, claim: &mut Claim) -> Result<(), StageError> {
    context.before(Stage::Settled).await;
    context.store.complete_handoff(claim).await?;
    Ok(())
}
