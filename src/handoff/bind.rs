//! Stage `bound`: the chat is put on this session, under the key that the person's next message there will have.

use super::Stage;
use super::pipeline::{Context, StageError};
use crate::session::session_key;
use crate::store::Claim;

pub(super) async fn run(context: &Context, claim: &mut Claim) -> Result<(), StageError> {
    let source = context.destination(&claim.handoff)?;
    let key = session_key(&source, &context.keys);
    context.before(Stage::Bound).await;
    context.store.record_binding(claim, &key, &source).await?;
    claim.handoff.session_key = Some(key);
    claim.handoff.stage = Some(Stage::Bound);
    Ok(())
}
