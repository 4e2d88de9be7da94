//! Handles `pair.list`, `pair.approve` and `pair.revoke`.

use std::path::PathBuf;

use crate::control::ControlContext;
use crate::control::handlers::{Answer, answer, not_found, refused};
use crate::delivery::ChatQueue;
use crate::domain::RefusalKind;
use crate::inbound::hermes_pairing;
use crate::protocol::{PersonName, RpcError, code};
use crate::views;

/// The message to a person who got access.
const WELCOME: &str =
    "You have access now. Send a message to talk to the agent. /help lists the commands.";

pub(super) async fn list(context: &ControlContext) -> Answer {
    let people = context.store.people().await?;
    let mut people: Vec<_> = people.into_iter().map(views::person).collect();
    let home = PathBuf::from(&context.home);
    let of_hermes = blocking(move || Ok(hermes_pairing::list(&home))).await?;
    people.extend(of_hermes.into_iter().map(views::hermes_person));
    answer(&people)
}

pub(super) async fn approve(context: &ControlContext, code: &str) -> Answer {
    let approved = context.store.approve(code, WELCOME).await?;
    let Some((person, note)) = approved else {
        return Err(refused(
            RefusalKind::NoSuchCode,
            "this code does not exist or has expired",
            "a code is valid for an hour: a person who writes to the bot again gets a new one",
        ));
    };
    tracing::info!(
        platform = person.platform,
        user = person.user_id,
        "access approved"
    );
    if let Some(note) = note {
        context.chats.post(note);
    }
    answer(&views::person(person))
}

pub(super) async fn revoke(context: &ControlContext, wish: PersonName) -> Answer {
    let ours = context
        .store
        .forget_person(&wish.platform, &wish.user)
        .await?;
    let (home, person) = (PathBuf::from(&context.home), wish.clone());
    let hermes = move || hermes_pairing::revoke(&home, &person.platform, &person.user);
    if !blocking(hermes).await? && !ours {
        let what = format!("person {} with access on {}", wish.user, wish.platform);
        return Err(not_found(&what, "see `hermesctl pair`"));
    }
    tracing::info!(platform = wish.platform, user = wish.user, "access revoked");
    answer(&wish)
}

/// Works on Hermes' files in a blocking thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, RpcError> {
    let failed = |error: String| {
        RpcError::new(
            code::INTERNAL,
            format!("cannot access Hermes' pairing file: {error}"),
        )
        .with_data(
            RefusalKind::PairingFile.as_str(),
            Some("check the owner of the files in pairing/ and platforms/pairing/".to_owned()),
        )
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| failed(error.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}
