//! Handles `agent.list` and `agent.test`.

use crate::agent::{AgentState, Agents};
use crate::control::ControlContext;
use crate::control::handlers::{Answer, answer, refused};
use crate::domain::RefusalKind;
use crate::domain::TranscriptWriter;
use crate::protocol::{AgentTestView, AgentView};

/// The characters of a test reply that the answer shows.
const SHOWN_REPLY: usize = 200;

pub(super) fn list(context: &ControlContext) -> Answer {
    answer(&agent_views(&context.turns.agents()))
}

/// Each agent, with what is missing if it is not ready.
pub fn agent_views(agents: &Agents) -> Vec<AgentView> {
    let view = |(name, state): (&str, &AgentState)| {
        let (ready, detail) = match state {
            AgentState::Ready(agent) => match agent.missing() {
                None => (Some(agent), None),
                Some(why) => (None, Some(why)),
            },
            AgentState::Missing(why) => (None, Some(why.clone())),
        };
        AgentView {
            name: name.to_owned(),
            ready: ready.is_some(),
            detail,
            model: ready.and_then(|agent| agent.model()),
            default: name == agents.default_name(),
            keeps_transcript: ready
                .is_some_and(|agent| agent.transcript_writer("cli") == TranscriptWriter::Agent),
        }
    };
    agents.all().map(view).collect()
}

pub(super) async fn test(context: &ControlContext, name: &str) -> Answer {
    let agent = context.turns.agents().get(name);
    let agent =
        agent.map_err(|why| refused(RefusalKind::NoAgent, why, "see `hermesctl agents`"))?;
    let probe = context.turns.probe(agent.as_ref()).await;
    let (reply, error) = match probe.outcome {
        Ok(reply) => (Some(reply), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let model = reply.as_ref().and_then(|reply| reply.model.clone());
    answer(&AgentTestView {
        agent: name.to_owned(),
        model: model.or_else(|| agent.model()),
        first: probe.first.map(|time| time.as_secs_f64()),
        whole: probe.whole.as_secs_f64(),
        reply: reply.map(|reply| reply.text.chars().take(SHOWN_REPLY).collect()),
        error,
    })
}
