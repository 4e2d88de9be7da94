//! `hermesctl doctor`: everything that a handoff needs, looked over one thing after the other. It goes on where another command
//! would stop, since what is wrong is what it is asked for.

mod access;
mod host;
mod profiles;
mod unit;

use serde_json::json;

use super::CliError;
use super::backend::find_daemon;
use super::output::{BAD, BOLD, FAINT, GOOD, Output};
use crate::agent::{AgentState, Agents};
use crate::client::Client;
use crate::config::{self, Config, Overrides, paths};
use crate::daemon;
use crate::events::Bus;
use crate::platform::{self, Finding, Grade, Platforms, local};
use crate::protocol::{AgentView, Call, FindingView, Nothing, PlatformName, PlatformView};
use crate::store::Store;
use crate::views;

pub(super) async fn run(
    overrides: &Overrides,
    socket_is_explicit: bool,
    out: &Output,
) -> Result<(), CliError> {
    let mut report = Report {
        out,
        found: Vec::new(),
    };
    match config::load(platform::schema(), overrides) {
        Ok(config) => look_over(&config, socket_is_explicit, &mut report).await?,
        Err(error) => {
            let remedy = "mend what it names; `hermesd --check-config` shows what is in force";
            report.tell(Finding::bad("configuration", error.to_string(), remedy))?;
        }
    }
    report.end()
}

async fn look_over(
    config: &Config,
    socket_is_explicit: bool,
    report: &mut Report<'_>,
) -> Result<(), CliError> {
    report.tell(Finding::good(
        "configuration",
        format!("it can be read; the home is {}", config.home.display()),
    ))?;
    report.tell_all(host::placeholders(config))?;
    report.tell_all(host::secrets(config))?;
    report.tell_all(host::modes(&config.home))?;
    let (found, store) = host::database(config).await;
    report.tell_all(found)?;
    report.tell_all(host::disk(&config.home))?;
    let daemon = find_daemon(config, socket_is_explicit).await;
    report.tell_all(host::daemon(config, &daemon))?;
    let daemon = daemon.ok().flatten();
    report.tell_all(unit::look(&paths::unit_of(&config.home), daemon.is_some()).await)?;
    report.tell_all(profiles::look(config).await)?;
    match (&daemon, &store) {
        (Some(client), _) => ask_daemon(config, client, report).await,
        (None, Some(store)) => look_without_daemon(config, store, report).await,
        (None, None) => Ok(()),
    }
}

/// The daemon knows best: it may run elsewhere, as somebody else.
async fn ask_daemon(
    config: &Config,
    client: &Client,
    report: &mut Report<'_>,
) -> Result<(), CliError> {
    let platforms: Vec<PlatformView> = client.call(Call::PlatformList(Nothing {})).await?;
    for platform in platforms {
        let detail = platform.detail.unwrap_or_default();
        match platform.state.as_str() {
            "up" => report.tell(Finding::good(&platform.name, "up"))?,
            "off" => continue,
            state => {
                let remedy = "see `hermesctl platforms`, and the daemon's log";
                let detail = format!("{state}: {detail}");
                report.tell(Finding::bad(&platform.name, detail, remedy))?;
            }
        }
        let name = platform.name.clone();
        let wish = Call::PlatformExamine(PlatformName { platform: name });
        let found: Vec<FindingView> = client.call(wish).await.unwrap_or_default();
        report.tell_all(found.into_iter().map(from_view).collect())?;
        if platform.name != local::NAME {
            let owner = platform.owner.as_deref();
            let here = config.platform(&platform.name).filter(|p| p.enabled);
            let here = here.filter(|p| p.access.owner() == owner);
            report.tell(match here {
                Some(configured) => access::configured(configured),
                None => access::of_daemon(&platform.name, owner),
            })?;
        }
    }
    let agents: Vec<AgentView> = client.call(Call::AgentList(Nothing {})).await?;
    let default = agents.into_iter().find(|agent| agent.default);
    report.tell(match default {
        Some(agent) if agent.ready => ready(&agent.name),
        Some(agent) => not_ready(&agent.name, &agent.detail.unwrap_or_default()),
        None => not_ready("agent", "none is chosen"),
    })
}

async fn look_without_daemon(
    config: &Config,
    store: &Store,
    report: &mut Report<'_>,
) -> Result<(), CliError> {
    let homes = Platforms::configured(config, store);
    for adapter in daemon::adapters(config, store, &Bus::default()) {
        let wanted = config.platform(adapter.name()).filter(|p| p.enabled);
        if let Some(platform) = wanted {
            let home = homes.home(adapter.name());
            report.tell_all(adapter.diagnose(home.as_ref()).await)?;
            if platform.name != local::NAME {
                report.tell(access::configured(platform))?;
            }
        }
    }
    let agents = Agents::configured(config, store);
    let name = agents.default_name();
    let standing = agents.all().find(|(agent, _)| *agent == name);
    report.tell(match standing {
        Some((_, AgentState::Missing(why))) => not_ready(name, why),
        _ => ready(name),
    })
}

fn ready(agent: &str) -> Finding {
    match agent {
        "echo" => Finding::doubtful(
            "agent",
            "echo answers, which only repeats what it is told",
            "install Hermes, or set agents.openai.base_url and .model; `hermesctl agents` shows what each one needs",
        ),
        agent => Finding::good(
            "agent",
            format!("{agent} is ready; `hermesctl agents test {agent}` asks it something"),
        ),
    }
}

fn not_ready(agent: &str, why: &str) -> Finding {
    let detail = format!("{agent} is to answer and cannot: {why}");
    Finding::bad("agent", detail, "see `hermesctl agents`")
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

/// What was found so far. For people it is told at once, since some of it takes time.
struct Report<'a> {
    out: &'a Output,
    found: Vec<Finding>,
}

impl Report<'_> {
    fn tell(&mut self, finding: Finding) -> Result<(), CliError> {
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

    fn tell_all(&mut self, found: Vec<Finding>) -> Result<(), CliError> {
        found.into_iter().try_for_each(|finding| self.tell(finding))
    }

    fn end(self) -> Result<(), CliError> {
        let count = |grade| self.found.iter().filter(|f| f.grade == grade).count();
        let (bad, doubtful) = (count(Grade::Bad), count(Grade::Doubtful));
        let findings: Vec<FindingView> = self.found.into_iter().map(views::finding).collect();
        self.out
            .value(&json!({"well": bad == 0, "findings": findings}))?;
        if bad > 0 {
            let error = CliError::Failed {
                message: format!("{bad} of these are wrong"),
                hint: Some("the lines with ✗ say what to do".into()),
            };
            return Err(error.after_value(self.out));
        }
        self.out.line(match doubtful {
            0 => "\nAll is well.".to_owned(),
            n => format!("\nAll is well, but for {n} that you may want to look at."),
        })
    }
}
