//! Removes a webhook that receives the bot's messages.

use super::{Guide, ask};
use crate::cli::CliError;
use crate::cli::diagnose_process::{DiagnoseProcess, unexpected};
use crate::protocol::{DiagnoseAnswer, DiagnoseRequest};

impl Guide<'_> {
    /// While a webhook is set, it receives all messages. It is removed only if the person confirms it.
    pub(super) async fn webhook(
        &self,
        process: &mut DiagnoseProcess,
        remove: bool,
    ) -> Result<(), CliError> {
        let host = match process.ask(&DiagnoseRequest::Webhook).await? {
            DiagnoseAnswer::Webhook { host: Some(host) } => host,
            DiagnoseAnswer::Webhook { host: None } => return Ok(()),
            _ => return Err(unexpected()),
        };
        self.out.line(format!(
            "A webhook at {host} receives this bot's messages, so hermesd gets none.\n\
             If you remove it, the program behind it gets none."
        ))?;
        let remove = remove || (self.asks && ask::no(self.out, "Remove it?").await?);
        if !remove {
            let again = "run this again with --remove-webhook to remove it";
            return self.out.line(format!("It stays: {again}."));
        }
        process.ask(&DiagnoseRequest::RemoveWebhook).await?;
        self.out.line("It is removed.")
    }
}
