//! Invoked by `hermesctl agents`.
//!
//! Lists the agents, and tests one of them.

use super::CliError;
use super::backend::Target;
use super::output::{BAD, BOLD, Column, GOOD, Output};
use super::spinner::Spinner;
use crate::client::Client;
use crate::clock;
use crate::protocol::{AgentName, AgentTestView, AgentView, Call, Nothing};

#[derive(Debug, clap::Args)]
pub struct AgentsArgs {
    #[command(subcommand)]
    pub verb: Option<AgentsVerb>,
}

#[derive(Debug, clap::Subcommand)]
pub enum AgentsVerb {
    /// List all agents, and what is missing if one is not ready (the default).
    List,
    /// Send a test prompt to an agent and show its reply.
    Test {
        /// The name of the agent.
        agent: String,
    },
}

pub(super) async fn run(target: &Target, out: &Output, args: AgentsArgs) -> Result<(), CliError> {
    let (_, backend) = target.open().await?;
    // Only the daemon knows whether an agent can be used: it may run as another user.
    let client = backend.daemon()?;
    match args.verb.unwrap_or(AgentsVerb::List) {
        AgentsVerb::List => list(client, out).await,
        AgentsVerb::Test { agent } => test(client, out, agent).await,
    }
}

async fn list(client: &Client, out: &Output) -> Result<(), CliError> {
    let agents: Vec<AgentView> = client.call(Call::AgentList(Nothing {})).await?;
    out.value(&agents)?;
    let row = |agent: &AgentView| {
        let state = match (agent.ready, agent.default) {
            (true, true) => "ready, the default",
            (true, false) => "ready",
            (false, _) => "not ready",
        };
        vec![
            agent.name.clone(),
            state.to_owned(),
            agent.model.clone().unwrap_or_default(),
            agent.detail.clone().unwrap_or_default(),
        ]
    };
    out.table(
        &[
            Column::whole("AGENT"),
            Column::whole("STATE"),
            Column::text("MODEL").goes(1),
            Column::text("DETAIL"),
        ],
        &agents.iter().map(row).collect::<Vec<_>>(),
    )
}

async fn test(client: &Client, out: &Output, agent: String) -> Result<(), CliError> {
    let spinner = Spinner::start(out, &format!("asking {agent}"));
    let call = Call::AgentTest(AgentName { agent });
    let test: AgentTestView = client.call(call).await?;
    drop(spinner);
    out.value(&test)?;
    if let Some(error) = &test.error {
        out.line(out.styled(BAD, &format!("{} does not answer", test.agent)))?;
        return Err(CliError::Failed {
            message: error.clone(),
            hint: Some("see `hermesctl agents` and the daemon's log".into()),
        }
        .after_value(out));
    }
    out.line(out.styled(GOOD, &format!("{} answers", test.agent)))?;
    if let Some(model) = &test.model {
        out.line(format!("model        {model}"))?;
    }
    if let Some(first) = test.first {
        out.line(format!("first piece  {}", clock::took(first)))?;
    }
    out.line(format!("whole reply  {}", clock::took(test.whole)))?;
    out.line(out.styled(BOLD, test.reply.as_deref().unwrap_or_default()))
}
