//! Invoked by `hermesctl pair`.
//!
//! Lists the people who have access by pairing, approves one, revokes one.

use super::CliError;
use super::backend::Target;
use super::output::{Column, GOOD, Output};
use super::visible;
use crate::clock;
use crate::protocol::{Call, Nothing, PairingCode, PersonName, PersonView, PlatformView};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A person without access who writes to the bot gets a code and passes it on to you.\n\nExamples:\n  hermesctl pair\n  hermesctl pair approve K7QXM2PA\n  hermesctl pair revoke telegram 123456789"
)]
pub struct PairArgs {
    #[command(subcommand)]
    pub verb: Option<PairVerb>,
}

#[derive(Debug, clap::Subcommand)]
pub enum PairVerb {
    /// List the people with access, and those who wait for approval (the default).
    List,
    /// Give access to the person who received this code.
    Approve {
        /// The code that the bot sent.
        code: String,
    },
    /// Revoke a person's access.
    Revoke {
        /// The platform on which the person has access.
        platform: String,
        /// The id of the person on the platform, as `hermesctl pair` shows it.
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
                &[
                    Column::whole("PLATFORM"),
                    Column::whole("ID"),
                    Column::text("NAME"),
                    Column::text("STATE"),
                ],
                &people.iter().map(row).collect::<Vec<_>>(),
            )
        }
        PairVerb::Approve { code } => {
            let call = Call::PairApprove(PairingCode { code });
            let person: PersonView = client.call(call).await?;
            out.value(&person)?;
            let name = person.name.as_deref().unwrap_or(&person.user);
            // A stranger chose the name, so it must not add lines.
            let name = visible::in_one_line(name);
            let line = format!("{name} may talk to the agent on {}", person.platform);
            out.line(out.styled(GOOD, &line))?;
            let platforms: Vec<PlatformView> = client.call(Call::PlatformList(Nothing {})).await?;
            let of = platforms.iter().find(|p| p.name == person.platform);
            if of.is_some_and(|p| p.owner.is_none()) {
                out.line(format!(
                    "This person is a guest. If it is the owner of the bot, set platforms.{}.owner = \"{}\" in hermesd.toml.",
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
            out.line(format!("{user} no longer has access on {platform}"))
        }
    }
}

fn row(person: &PersonView) -> Vec<String> {
    let now = clock::now();
    let state = match person.approved_at {
        Some(at) if person.by == "hermes" => {
            format!("approved by Hermes {} ago", clock::age(now - at))
        }
        Some(at) => format!("approved {} ago", clock::age(now - at)),
        None => format!(
            "waits for approval, asked {} ago",
            clock::age(now - person.asked_at)
        ),
    };
    vec![
        person.platform.clone(),
        person.user.clone(),
        person.name.clone().unwrap_or_default(),
        state,
    ]
}
