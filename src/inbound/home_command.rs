//! Runs `/sethome`: makes the chat the home channel, and sends a note about it to the owner.

use std::sync::Arc;

use crate::domain::{HomeChannel, ThreadOutcome};
use crate::domain::{Source, session_key};
use crate::inbound::Inner;
use crate::store::retry_while_busy;
use crate::store::{Inbound, NewDelivery, StoreError};

impl Inner {
    pub(super) async fn set_home(
        self: &Arc<Self>,
        inbound: &Inbound,
    ) -> Result<String, StoreError> {
        let source = &inbound.source;
        let Some(chat_id) = source.chat_id.clone() else {
            return Ok("This chat cannot be a home.".to_owned());
        };
        let home = HomeChannel {
            chat_id,
            name: source.chat_name.clone(),
            thread_id: source.thread_id.clone(),
            owner: source.user_id.clone(),
        };
        let platform = &source.platform;
        let rules = self.rules.get();
        let configured = rules.homes.get(platform).map(String::as_str);
        let note = self.note_to_owner(inbound).await?;
        let choose = || {
            self.store
                .choose_home(platform, &home, configured, note.clone())
        };
        let note = retry_while_busy(&self.stop, choose).await?;
        tracing::info!(
            platform,
            chat = home.chat_id,
            user = source.user_id,
            "home channel chosen"
        );
        self.platforms.set_home(platform, home);
        if let Some(note) = note {
            self.post(note);
        }
        Ok(format!(
            "This is home now: `hermesctl handoff {platform}` brings sessions here."
        ))
    }

    /// The note to the owner. `None`: there is no other chat to send it to.
    async fn note_to_owner(&self, inbound: &Inbound) -> Result<Option<NewDelivery>, StoreError> {
        let source = &inbound.source;
        let to = match self.private_chat_of_owner(source).await? {
            Some(private) => Some(private),
            None => self.present_home(&source.platform),
        };
        let Some(to) = to.filter(|to| to.chat_id != source.chat_id) else {
            return Ok(None);
        };
        let platform = &source.platform;
        let who = source.user_name.as_deref().unwrap_or("A person");
        let id = source.user_id.as_deref().unwrap_or("unknown");
        let chat = source.chat_name.as_deref().unwrap_or("another chat");
        let text = format!(
            "{who} (id {id}) has said /sethome in \"{chat}\". Sessions that are handed off to {platform} go there now. \
             To change that, say /sethome in the chat that they should go to."
        );
        Ok(Some(NewDelivery {
            send_key: format!("home:{}", inbound.id),
            source: to,
            session_id: String::new(),
            handoff_id: None,
            text,
            extra: Default::default(),
        }))
    }

    /// The owner's private chat. `None` until the owner has talked to the bot there, because most platforms let no bot
    /// write first.
    async fn private_chat_of_owner(&self, source: &Source) -> Result<Option<Source>, StoreError> {
        let platform = &source.platform;
        let rules = self.rules.get();
        let private = rules.access.owner(platform).and_then(|owner| {
            let adapter = self.platforms.adapter(platform)?;
            adapter.private_chat(owner)
        });
        let Some(private) = private else {
            return Ok(None);
        };
        let key = session_key(&private, &self.keys);
        let live = || self.store.live_session(&key);
        let known = retry_while_busy(&self.stop, live).await?.is_some();
        Ok(known.then_some(private))
    }

    fn present_home(&self, platform: &str) -> Option<Source> {
        let home = self.platforms.home(platform)?;
        let opened = ThreadOutcome::Chat {
            reason: String::new(),
            within: None,
            thread_id: home.thread_id.clone(),
        };
        let adapter = self.platforms.adapter(platform)?;
        Some(adapter.destination(&home, &opened))
    }
}
