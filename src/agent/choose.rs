//! Builds the configured agents and chooses which one answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::acp::Acp;
use super::command::CommandAgent;
use super::echo::Echo;
use super::hermes::{self, Hermes};
use super::openai::OpenAi;
use super::{Agent, Program};
use crate::config::{AgentConfig, Config};
use crate::store::Store;

/// An agent, or why it is not available.
#[derive(Clone)]
pub enum AgentState {
    Ready(Arc<dyn Agent>),
    /// Says what to do about it.
    Missing(String),
}

/// All agents by name. Cheap to clone.
#[derive(Clone)]
pub struct Agents {
    all: Arc<BTreeMap<&'static str, AgentState>>,
    default: Arc<str>,
    by_platform: Arc<BTreeMap<String, String>>,
}

impl Agents {
    pub fn new(
        all: BTreeMap<&'static str, AgentState>,
        default: &str,
        by_platform: BTreeMap<String, String>,
    ) -> Agents {
        Agents {
            all: Arc::new(all),
            default: default.into(),
            by_platform: Arc::new(by_platform),
        }
    }

    pub fn configured(config: &Config, store: &Store) -> Agents {
        let settings = &config.agent;
        let echo = Echo {
            pace: settings.echo_pace,
        };
        let all = BTreeMap::from([
            ("hermes", hermes(config)),
            ("openai", openai(settings)),
            ("acp", acp(settings, store)),
            ("command", command(settings)),
            ("echo", AgentState::Ready(Arc::new(echo))),
        ]);
        let is_ready = |name: &str| matches!(all.get(name), Some(AgentState::Ready(_)));
        let default = match settings.default.as_str() {
            "auto" => AUTOMATIC.into_iter().find(|name| is_ready(name)),
            named => Some(named),
        };
        let default = default.unwrap_or("echo").to_owned();
        Agents::new(all, &default, settings.by_platform.clone())
    }

    /// A set of one agent.
    pub fn only(agent: Arc<dyn Agent>) -> Agents {
        let name = agent.name();
        Agents::new(
            BTreeMap::from([(name, AgentState::Ready(agent))]),
            name,
            BTreeMap::new(),
        )
    }

    pub fn default_name(&self) -> &str {
        &self.default
    }

    pub fn all(&self) -> impl Iterator<Item = (&'static str, &AgentState)> {
        self.all.iter().map(|(name, state)| (*name, state))
    }

    /// The agent of this name, or why there is none.
    pub fn get(&self, name: &str) -> Result<Arc<dyn Agent>, String> {
        match self.all.get(name) {
            Some(AgentState::Ready(agent)) => Ok(agent.clone()),
            Some(AgentState::Missing(why)) => {
                Err(format!("the agent {name} is not available: {why}"))
            }
            None => Err(format!(
                "there is no agent called {name:?}: choose one of {}",
                self.all.keys().copied().collect::<Vec<_>>().join(", ")
            )),
        }
    }

    /// The agent stored for the session, else the platform's, else the default.
    pub fn choose(
        &self,
        remembered: Option<&str>,
        platform: &str,
    ) -> Result<Arc<dyn Agent>, String> {
        let of_platform = self.by_platform.get(platform).map(String::as_str);
        self.get(remembered.or(of_platform).unwrap_or(&self.default))
    }

    /// Closes each agent when its last turn has ended. Called after a reload has replaced the agents.
    pub async fn retire(&self) {
        for state in self.all.values() {
            let AgentState::Ready(agent) = state else {
                continue;
            };
            while Arc::strong_count(agent) > 1 {
                tokio::time::sleep(RETIRE_CHECK).await;
            }
            agent.close().await;
        }
    }

    pub async fn close(&self) {
        for state in self.all.values() {
            if let AgentState::Ready(agent) = state {
                agent.close().await;
            }
        }
    }
}

/// The interval of checks whether a retired agent still has a turn.
const RETIRE_CHECK: Duration = Duration::from_secs(1);

/// If no default is configured, the first of these that is ready is the default.
const AUTOMATIC: [&str; 3] = ["hermes", "openai", "echo"];

fn hermes(config: &Config) -> AgentState {
    let settings = &config.agent;
    let Some(python) = settings.hermes_python.clone().or_else(hermes::python) else {
        let why =
            "Hermes is not installed here: put `hermes` on the path, or set agents.hermes.python";
        return AgentState::Missing(why.into());
    };
    let python = python.display().to_string();
    let program = Program {
        words: [python.as_str(), "-m", "tui_gateway.entry"]
            .map(str::to_owned)
            .into(),
        name: "hermes",
        environment: vec![("HERMES_HOME".into(), config.home.display().to_string())],
        withheld: settings.withheld.clone(),
        platforms: settings.platforms.clone(),
    };
    AgentState::Ready(Arc::new(Hermes::new(program, settings.idle)))
}

fn openai(settings: &AgentConfig) -> AgentState {
    let Some(config) = settings.openai.clone() else {
        return AgentState::Missing("set agents.openai.base_url and agents.openai.model".into());
    };
    match OpenAi::new(config) {
        Ok(agent) => AgentState::Ready(Arc::new(agent)),
        Err(why) => AgentState::Missing(why),
    }
}

fn acp(settings: &AgentConfig, store: &Store) -> AgentState {
    match settings.acp.clone() {
        None => AgentState::Missing("set agents.acp.command".into()),
        Some(words) => {
            let program = program("acp", words, settings);
            AgentState::Ready(Arc::new(Acp::new(program, settings.idle, store.clone())))
        }
    }
}

fn command(settings: &AgentConfig) -> AgentState {
    match settings.command.clone() {
        None => AgentState::Missing("set agents.command.command".into()),
        Some(words) => AgentState::Ready(Arc::new(CommandAgent {
            program: program("command", words, settings),
        })),
    }
}

fn program(name: &'static str, words: Vec<String>, settings: &AgentConfig) -> Program {
    Program {
        words,
        name,
        environment: Vec::new(),
        withheld: settings.withheld.clone(),
        platforms: settings.platforms.clone(),
    }
}
