//! Finds out who owns the bot.

use super::{Guide, ask};
use crate::cli::CliError;
use crate::cli::diagnose_process::{DiagnoseProcess, unexpected};
use crate::cli::output::BOLD;
use crate::protocol::{DiagnoseAnswer, DiagnoseRequest, PersonChoice};

impl Guide<'_> {
    /// The person that `--owner` names.
    pub(super) async fn named_owner(
        &self,
        process: &mut DiagnoseProcess,
        id: &str,
    ) -> Result<PersonChoice, CliError> {
        match look_up(process, id).await {
            Err(CliError::Failed { message, .. }) => Err(CliError::Refused {
                message: format!("the owner cannot be set: {message}"),
                hint: Some("give the id of the person with --owner".into()),
                kind: "owner".into(),
            }),
            person => person,
        }
    }

    /// Asks the person at the terminal who they are. `present` is the id of the present owner.
    pub(super) async fn ask_for_owner(
        &self,
        process: &mut DiagnoseProcess,
        present: Option<&str>,
    ) -> Result<Option<PersonChoice>, CliError> {
        self.out.line(self.out.styled(BOLD, "\nThe owner"))?;
        self.out.line(
            "The owner may talk to the agent everywhere, approves what it asks for, and must see the home channel.",
        )?;
        let DiagnoseAnswer::Owner {
            person: registered,
            own_id_hint,
        } = process.ask(&DiagnoseRequest::Owner).await?
        else {
            return Err(unexpected());
        };
        let likely = match present {
            Some(id) => look_up(process, id).await.ok(),
            None => registered,
        };
        if let Some(person) = likely
            && self.is_you(&person).await?
        {
            return Ok(Some(person));
        }
        loop {
            let question = format!("Your id ({own_id_hint}), or Enter for no owner:");
            let id = ask::line(self.out, &question).await?;
            if id.is_empty() {
                return Ok(None);
            }
            match look_up(process, &id).await {
                Ok(person) if self.is_you(&person).await? => return Ok(Some(person)),
                Ok(_) => {}
                Err(error @ CliError::Failed { .. }) => self.out.complain(&error)?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn is_you(&self, person: &PersonChoice) -> Result<bool, CliError> {
        let question = format!("Are you {} (id {})?", person.name, person.id);
        ask::yes(self.out, &question).await
    }
}

async fn look_up(process: &mut DiagnoseProcess, id: &str) -> Result<PersonChoice, CliError> {
    let request = DiagnoseRequest::Person { id: id.to_owned() };
    match process.ask(&request).await? {
        DiagnoseAnswer::Owner {
            person: Some(person),
            ..
        } => Ok(person),
        _ => Err(unexpected()),
    }
}
