//! Invoked by `hermesctl pair`.
//!
//! Lists the people who may talk to the agent by pairing, approves one, revokes one.

use super::CliError;
use super::backend::Target;
use super::output::{GOOD, Output};
use super::visible;
use crate::clock;
use crate::protocol::{Call, Nothing, PairingCode, PersonName, PersonView, PlatformView};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Somebody unknown who writes to the bot gets a code and tells it to you.\n\nExamples:\n  hermesctl pair\n  hermesctl pair approve K7QXM2PA\n  hermesctl pair revoke telegram 123456789"
)]
pub struct PairArgs {
    #[command(subcommand)]
    pub verb: Option<PairVerb>,
}

#[derive(Debug, clap::Subcommand)]
pub enum PairVerb {
    /// Everybody who was let in, and those who ask for it (the default).
    List,
    /// Let in the person who got this code.
    Approve {
        /// As the bot gave it to them.
        code: String,
    },
    /// No longer let this person in.
    Revoke {
        /// Where they write.
        platform: String,
        /// The platform's id of the person, as `hermesctl pair` shows it.
        id: String,
    },
}

pub(super) async fn run(target: &Target, out: &Output, args: PairArgs) -> Result<(), CliError> {
    let (_, backend) = target.open().await?;
    let client = backend.daemon()?;
    match args.verb.unwrap_or(PairVerb::List) {
        PairVerb::List => {
            let people: Vec<PersonView> = client.call(Call::PairList(Nothing {})).await?;
            out.value(&people)?;
            out.table(
                &["PLATFORM", "ID", "NAME", "STATE"],
                &people.iter().map(row).collect::<Vec<_>>(),
            )
        }
        PairVerb::Approve { code } => {
            let call = Call::PairApprove(PairingCode { code });
            let person: PersonView = client.call(call).await?;
            out.value(&person)?;
            let name = person.name.as_deref().unwrap_or(&person.user);
            // A stranger chose the name: it stays in its line.
            let name = visible::in_one_line(name);
            let line = format!("{name} may talk to the agent on {}", person.platform);
            out.line(out.styled(GOOD, &line))?;
            let platforms: Vec<PlatformView> = client.call(Call::PlatformList(Nothing {})).await?;
            let of = platforms.iter().find(|p| p.name == person.platform);
            if of.is_some_and(|p| p.owner.is_none()) {
                out.line(format!(
                    "They are a guest. If the bot is theirs, set platforms.{}.owner = \"{}\" in hermesd.toml.",
                    person.platform, person.user
                ))?;
            }
            Ok(())
        }
        PairVerb::Revoke { platform, id } => {
            let person = PersonName { platform, user: id };
            let person: PersonName = client.call(Call::PairRevoke(person)).await?;
            out.value(&person)?;
            let PersonName { platform, user } = person;
            out.line(format!("{user} is no longer let in on {platform}"))
        }
    }
}

fn row(person: &PersonView) -> Vec<String> {
    let now = clock::now();
    let state = match person.approved_at {
        Some(at) if person.by == "hermes" => {
            format!("let in by Hermes {} ago", clock::age(now - at))
        }
        Some(at) => format!("let in {} ago", clock::age(now - at)),
        None => format!("asks since {}", clock::age(now - person.asked_at)),
    };
    vec![
        person.platform.clone(),
        person.user.clone(),
        person.name.clone().unwrap_or_default(),
        state,
    ]
}
