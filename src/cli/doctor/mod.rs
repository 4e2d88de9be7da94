//! Invoked by `hermesctl doctor`.
//!
//! Checks everything that a handoff needs, and prints each finding. It continues after a fault.

mod access;
mod host;
mod profiles;
mod unit;

use serde_json::json;

use super::CliError;
use super::backend::{Target, find_daemon};
use super::diagnose_process::{DiagnoseProcess, unexpected};
use super::output::{BAD, BOLD, FAINT, GOOD, Output};
use crate::client::Client;
use crate::config::{self, Config, Overrides, paths};
use crate::platform::{self, Finding, Grade, local};
use crate::protocol::{
    AgentView, Call, DiagnoseAnswer, DiagnoseRequest, FindingView, Nothing, PlatformName,
    PlatformView,
};
use crate::views;

pub(super) async fn run(target: &Target, out: &Output) -> Result<(), CliError> {
    let mut report = Report {
        out,
        found: Vec::new(),
    };
    match config::load(platform::schema(), &target.overrides) {
        Ok(config) => check_all(&config, target, &mut report).await?,
        Err(error) => {
            let remedy = "correct it: `hermesd --check-config` shows the settings in effect";
            report.add(Finding::bad("configuration", error.to_string(), remedy))?;
        }
    }
    report.end()
}

async fn check_all(
    config: &Config,
    target: &Target,
    report: &mut Report<'_>,
) -> Result<(), CliError> {
    report.add(Finding::good(
        "configuration",
        format!("valid, the home is {}", config.home.display()),
    ))?;
    report.add_all(host::placeholders(config))?;
    report.add_all(host::secrets(config))?;
    report.add_all(host::modes(&config.home))?;
    let (found, database_opens) = host::database(config).await;
    report.add_all(found)?;
    report.add_all(host::disk(&config.home))?;
    report.add_all(host::hooks(config))?;
    let daemon = find_daemon(config, target.socket_is_explicit).await;
    report.add_all(host::daemon(config, &daemon))?;
    let daemon = daemon.ok().flatten();
    if daemon.is_none() {
        report.add_all(host::unwritable(&config.home))?;
    }
    report.add_all(unit::check(&paths::unit_of(&config.home), daemon.is_some()).await)?;
    report.add_all(profiles::check(config).await)?;
    match (&daemon, database_opens) {
        (Some(client), _) => ask_daemon(config, client, report).await,
        (None, true) => without_daemon(config, &target.overrides, report).await,
        (None, false) => report.add_all(host::agents(config)),
    }
}

/// Asks the daemon, which may run as another user.
async fn ask_daemon(
    config: &Config,
    client: &Client,
    report: &mut Report<'_>,
) -> Result<(), CliError> {
    let platforms: Vec<PlatformView> = client.call(Call::PlatformList(Nothing {})).await?;
    for platform in platforms {
        let detail = platform.detail.unwrap_or_default();
        match platform.state.as_str() {
            "up" => report.add(Finding::good(&platform.name, "up"))?,
            "off" => continue,
            state => {
                let remedy = "see `hermesctl platforms` and the daemon's log";
                let detail = format!("{state}: {detail}");
                report.add(Finding::bad(&platform.name, detail, remedy))?;
            }
        }
        let name = platform.name.clone();
        let wish = Call::PlatformExamine(PlatformName { platform: name });
        let found: Vec<FindingView> = client.call(wish).await.unwrap_or_default();
        report.add_all(found.into_iter().map(from_view).collect())?;
        if platform.name != local::NAME {
            let owner = platform.owner.as_deref();
            let here = config.platform(&platform.name).filter(|p| p.enabled);
            let here = here.filter(|p| p.access.owner() == owner);
            report.add(match here {
                Some(configured) => access::configured(configured),
                None => access::of_daemon(&platform.name, owner),
            })?;
        }
    }
    let agents: Vec<AgentView> = client.call(Call::AgentList(Nothing {})).await?;
    report.add_all(agent_findings(config, agents))
}

/// The default agent, and other agents that are configured but not ready.
fn agent_findings(config: &Config, agents: Vec<AgentView>) -> Vec<Finding> {
    let configured = |name: &str| match name {
        "acp" => config.agent.acp.is_some(),
        "command" => config.agent.command.is_some(),
        "hermes" => config.agent.hermes_python.is_some(),
        name => config.agent.by_platform.values().any(|agent| agent == name),
    };
    let finding = |agent: AgentView| {
        let why = agent.detail.unwrap_or_default();
        match (agent.default, agent.ready) {
            (true, true) => Some(ready(&agent.name)),
            (true, false) => Some(not_ready(&agent.name, &why)),
            (false, false) if configured(&agent.name) => Some(Finding::bad(
                "agent",
                format!("{} is configured and is not ready: {why}", agent.name),
                "see `hermesctl agents`",
            )),
            (false, _) => None,
        }
    };
    agents.into_iter().filter_map(finding).collect()
}

/// Asks `hermesd diagnose`. A failure to ask is a finding too.
async fn without_daemon(
    config: &Config,
    overrides: &Overrides,
    report: &mut Report<'_>,
) -> Result<(), CliError> {
    let diagnosed = diagnose(config, overrides, report).await;
    match diagnosed {
        Err(error @ (CliError::Refused { .. } | CliError::Failed { .. } | CliError::Other(_))) => {
            let remedy = error.hint().unwrap_or("see above").to_owned();
            report.add(Finding::bad(
                "platforms and agents",
                error.to_string(),
                remedy,
            ))
        }
        other => other,
    }
}

async fn diagnose(
    config: &Config,
    overrides: &Overrides,
    report: &mut Report<'_>,
) -> Result<(), CliError> {
    let mut process = DiagnoseProcess::start(overrides)?;
    process.send(&DiagnoseRequest::Platforms).await?;
    loop {
        match process.answer().await? {
            DiagnoseAnswer::Platform {
                platform, findings, ..
            } => {
                report.add_all(findings.into_iter().map(from_view).collect())?;
                let configured = config.platform(&platform);
                if let Some(configured) = configured.filter(|p| p.name != local::NAME) {
                    report.add(access::configured(configured))?;
                }
            }
            DiagnoseAnswer::Done => break,
            _ => return Err(unexpected()),
        }
    }
    match process.ask(&DiagnoseRequest::Agents).await? {
        DiagnoseAnswer::Agents { agents } => report.add_all(agent_findings(config, agents)),
        _ => Err(unexpected()),
    }
}

fn ready(agent: &str) -> Finding {
    match agent {
        "echo" => Finding::doubtful(
            "agent",
            "the agent is echo, which only repeats your messages",
            "install Hermes, or set agents.openai.base_url and .model: `hermesctl agents` shows what each agent needs",
        ),
        agent => Finding::good(
            "agent",
            format!("{agent} is ready: `hermesctl agents test {agent}` tests it"),
        ),
    }
}

fn not_ready(agent: &str, why: &str) -> Finding {
    let detail = format!("{agent} is the default and is not ready: {why}");
    Finding::bad("agent", detail, "see `hermesctl agents`")
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn from_view(view: FindingView) -> Finding {
    let grade = match view.grade.as_str() {
        "good" => Grade::Good,
        "doubtful" => Grade::Doubtful,
        _ => Grade::Bad,
    };
    Finding {
        what: view.what,
        grade,
        detail: view.detail,
        remedy: view.remedy,
    }
}

/// Collects the findings, and prints each at once, because some checks take time.
struct Report<'a> {
    out: &'a Output,
    found: Vec<Finding>,
}

impl Report<'_> {
    fn add(&mut self, finding: Finding) -> Result<(), CliError> {
        let out = self.out;
        let sign = match finding.grade {
            Grade::Good => out.styled(GOOD, "✓"),
            Grade::Doubtful => out.styled(BOLD, "!"),
            Grade::Bad => out.styled(BAD, "✗"),
        };
        let detail = finding.detail.replace('\n', "\n    ");
        out.line(format!("{sign} {}: {detail}", finding.what))?;
        if let Some(remedy) = &finding.remedy {
            out.line(out.styled(FAINT, &format!("    → {remedy}")))?;
        }
        self.found.push(finding);
        Ok(())
    }

    fn add_all(&mut self, found: Vec<Finding>) -> Result<(), CliError> {
        found.into_iter().try_for_each(|finding| self.add(finding))
    }

    fn end(self) -> Result<(), CliError> {
        let count = |grade| self.found.iter().filter(|f| f.grade == grade).count();
        let (bad, doubtful) = (count(Grade::Bad), count(Grade::Doubtful));
        let findings: Vec<FindingView> = self.found.into_iter().map(views::finding).collect();
        self.out
            .value(&json!({"well": bad == 0, "findings": findings}))?;
        if bad > 0 {
            let error = CliError::Failed {
                message: match doubtful {
                    0 => format!("{}.", counted(bad, "problem")),
                    n => format!("{}, {}.", counted(bad, "problem"), counted(n, "warning")),
                },
                hint: Some("the lines under each ✗ name the remedy".into()),
            };
            return Err(error.after_value(self.out));
        }
        self.out.line(match doubtful {
            0 => "\nEverything is in order.".to_owned(),
            n => format!("\nEverything works, with {}: see !.", counted(n, "warning")),
        })
    }
}
