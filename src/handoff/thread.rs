//! Stage `threaded`: a fresh thread in the home, or the home chat itself when the platform has or grants none.

use super::Stage;
use super::pipeline::{Context, StageError, unavailable};
use crate::platform::{Availability, Opened, Tries, with_retries};
use crate::store::Claim;

pub(super) async fn run(context: &Context, claim: &mut Claim) -> Result<(), StageError> {
    let platform = context.adapter(&claim.handoff)?;
    // The claim has found it, if there is one.
    let Some(home) = claim.handoff.home.clone() else {
        let reason = unavailable(platform.name(), &Availability::NoHome);
        return Err(StageError::Failed(reason));
    };
    let title = format!("Hermes — {}", claim.session_name);
    let open_key = format!("handoff:{}", claim.handoff.id);
    let name = platform.name();
    let able = platform.capabilities();
    let opened = if able.threads {
        // Where nobody can tell whether an interrupted try has opened one, the reader of the next is told.
        let mut repeated = !able.idempotent_threads && context.store.thread_wanted(claim).await?;
        let open = |unsure| {
            repeated |= unsure && !able.idempotent_threads;
            platform.open_thread(&home, &title, &open_key)
        };
        let ready = || std::future::ready(());
        let opened = with_retries(name, Tries::Few, &context.metrics, ready, open).await;
        let mut opened = opened.map_err(|reason| {
            StageError::Failed(format!("no thread could be opened on {name}: {reason}"))
        })?;
        if let Opened::Thread { repeated: mark, .. } = &mut opened {
            *mark = repeated;
        }
        opened
    } else {
        Opened::chat(format!("{name} has no threads"))
    };
    context.before(Stage::Threaded).await;
    context.store.record_thread(claim, &opened).await?;
    claim.handoff.thread = Some(opened);
    claim.handoff.stage = Some(Stage::Threaded);
    Ok(())
}
