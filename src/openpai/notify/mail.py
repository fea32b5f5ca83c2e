"""Sends mail through an SMTP server, over TLS unless the channel says that it has none."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
import ssl
from collections.abc import Mapping
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any, Final

from openpai.ports.alerts import Channel, Message
from openpai.protocol.errors import Refused, Unavailable

TIMEOUT_S: Final = 30.0
SUBJECT_MAX: Final = 200
TEXT_MAX: Final = 100_000


async def send_mail(channel: Channel, secrets: Mapping[str, Any], message: Message) -> None:
    """Send a message to its recipients, or else to those of the channel."""
    to = message.to or tuple(channel.data.get("to", ()))
    if not to:
        raise Refused("NoUserError", "the message has no recipient", f"give channel {channel.name} a `to`")
    mail = mail_of(channel, message, to)
    try:
        # Each step in the thread has a limit of its own.
        await asyncio.to_thread(_deliver, channel, secrets, mail)
    except smtplib.SMTPAuthenticationError as error:
        raise Unavailable(f"the mail server {_place(channel)} refuses the user name or password") from error
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        if codes and all(code >= 500 for code in codes):
            refused = f"the mail server {_place(channel)} refuses every recipient"
            raise Refused("NoUserError", refused, "correct the addresses") from error
        raise Unavailable(f"the mail server {_place(channel)} does not take the recipients now") from error
    except smtplib.SMTPResponseException as error:
        answer = f"{error.smtp_code} {_line(error.smtp_error)}"
        raise Unavailable(f"the mail server {_place(channel)} answered {answer}") from error
    except (OSError, smtplib.SMTPException) as error:
        raise Unavailable(f"the mail server {_place(channel)} cannot be reached: {_line(error)}") from error


def mail_of(channel: Channel, message: Message, to: tuple[str, ...]) -> EmailMessage:
    """Return a message as mail; text of jobs in it cannot become a header."""
    mail = EmailMessage()
    mail["Subject"] = _line(message.subject)[:SUBJECT_MAX]
    mail["From"] = str(channel.data["from"])
    mail["To"] = [Address(addr_spec=each) for each in to]
    mail["Date"] = formatdate()
    # Two copies of the same message can be recognised.
    mail["Message-ID"] = f"<{_word(message.key)}@openpai>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text[:TEXT_MAX])
    return mail


def _deliver(channel: Channel, secrets: Mapping[str, Any], mail: EmailMessage) -> None:
    data = channel.data
    host, port = str(data["host"]), int(data.get("port", 587))
    security = data.get("security", "starttls")
    context = ssl.create_default_context(cadata=data.get("ca") or None)
    server: smtplib.SMTP
    if security == "tls":
        server = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=context)
    else:
        server = smtplib.SMTP(host, port, timeout=TIMEOUT_S)
    try:
        if security == "starttls":
            server.starttls(context=context)
        if data.get("username"):
            server.login(str(data["username"]), str(secrets.get("password", "")))
        server.send_message(mail)
    finally:
        with contextlib.suppress(OSError, smtplib.SMTPException):
            server.quit()


def _place(channel: Channel) -> str:
    return f"{channel.data['host']}:{channel.data.get('port', 587)}"


def _line(text: object) -> str:
    shown = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in shown).split())[:300]


def _word(text: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "." for letter in text)[:120].strip(".") or "x"
