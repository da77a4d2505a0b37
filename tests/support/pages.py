"""A site on the database that a test has, its pages, and browsers logged in with a role."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from duebook.api.computing import Computing
from duebook.web.csrf import signed_address
from duebook.web.forecast import Calendar
from duebook.web.site import create_site
from duebook.web.watching import Watches
from tests.support.api import BASE, SharedApp, SharingClient
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from duebook.api.app import App
    from duebook.api.gate import Authenticator
    from duebook.store.base import Store


shared_site = SharedApp(create_site)


def site_on(store: Store, authenticator: Authenticator | None = None) -> App:
    """The site on this store, by default with tokens of every role."""
    site = shared_site.on(store, authenticator)
    site.state.watches, site.state.calendar = Watches(store), Calendar()
    unhurried = Computing(wait=PATIENCE)  # no page is refused because the machine is busy
    site.state.services = replace(site.state.services, computing=unhurried)
    return site


class Page(HTMLParser):
    """A page as a user without scripts sees it: text, links, and forms with their fields."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self.status: int = answer.status_code
        self.source: str = answer.text
        self.links: list[str] = []
        self.forms: list[dict[str, Any]] = []
        self.words: list[str] = []
        self._area: str | None = None
        self.feed(self.source)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "form":
            self.forms.append({"method": given.get("method", "get"), "fields": {}} | given)
        elif tag in ("input", "button", "select", "textarea") and self.forms:
            self._field(tag, given)
        elif tag == "option" and self.forms and "selected" in given:
            self.forms[-1]["fields"][self._select] = given.get("value", "")

    def _field(self, tag: str, given: dict[str, str]) -> None:
        name = given.get("name", "")
        self._select = name
        unchecked = given.get("type") in ("checkbox", "radio") and "checked" not in given
        if name and tag != "button" and not unchecked:
            self.forms[-1]["fields"].setdefault(name, given.get("value", ""))
        self._area = name if tag == "textarea" else None

    def handle_data(self, data: str) -> None:
        if self._area is not None and self.forms:
            self.forms[-1]["fields"][self._area] = data.removeprefix("\n")
        self.words.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = None

    def form(self, action: str) -> dict[str, Any]:
        found = [form for form in self.forms if form.get("action", "").split("?")[0] == action]
        assert found, f"no form for {action}: {[form.get('action') for form in self.forms]}"
        return min(found, key=lambda form: form["method"] != "post")

    def sends(self, action: str) -> bool:
        return any(form.get("action", "").split("?")[0] == action for form in self.forms)


class Browser:
    """A browser with a session; it sends forms as the pages contain them."""

    def __init__(self, app: App, token: str) -> None:
        self.client = SharingClient(app, BASE, headers={"Accept": "text/html"})
        self.client.cookies.set("duebook_session", token)
        self._token = token

    def get(self, path: str, **query: Any) -> Page:
        return Page(self.client.get(path, params=query or None))

    def ok(self, path: str, **query: Any) -> Page:
        page = self.get(path, **query)
        assert page.status == 200, page.text
        return page

    def signed(self, address: str) -> str:
        """An address in the form that the site redirects to after an action."""
        return signed_address(self._token, address)

    def told(self, path: str, **query: Any) -> Page:
        """The page that reports an action."""
        return self.ok(self.signed(f"{path}?{urlencode(query, doseq=True)}"))

    def send(self, page: Page, action: str, /, **changes: Any) -> Page:
        """Fill in the form of a page, and press its button."""
        form = page.form(action)
        fields = form["fields"] | changes
        answer = self.client.post(form["action"], data=fields, headers={"Origin": BASE})
        return Page(answer)

    def post(self, path: str, **fields: Any) -> Page:
        """Send a form that is not on any page."""
        return Page(self.client.post(path, data=fields, headers={"Origin": BASE}))


INLINE = re.compile(
    r"<script(?! type=\"module\" src=)|<style|\sstyle=|\son\w+=|javascript:", re.IGNORECASE
)
