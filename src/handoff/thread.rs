//! Stage `threaded`: a fresh thread in the home, or the home chat itself when the platform has or grants none.

use super::Stage;
use super::pipeline::{Context, StageError, unavailable};
use crate::platform::{Availability, Opened, Tries, Unsent, with_retries};
use crate::store::Claim;
use crate::turn::patiently;

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
        let (metrics, draining) = (&context.metrics, &context.shutdown.draining);
        let opened = with_retries(name, Tries::Few, metrics, draining, ready, open).await;
        let mut opened = opened.map_err(|unsent| match unsent {
            Unsent::Stopping => StageError::Stopping,
            reason => StageError::Failed(format!("no thread could be opened on {name}: {reason}")),
        })?;
        if let Opened::Thread { repeated: mark, .. } = &mut opened {
            *mark = repeated;
        }
        opened
    } else {
        Opened::chat(format!("{name} has no threads"))
    };
    context.before(Stage::Threaded).await;
    // It is open now: only its record is tried again.
    let record = || context.store.record_thread(claim, &opened);
    patiently(&context.shutdown.cut, record).await?;
    claim.handoff.thread = Some(opened);
    claim.handoff.stage = Some(Stage::Threaded);
    Ok(())
}
