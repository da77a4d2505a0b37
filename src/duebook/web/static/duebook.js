// What pages do besides, where a browser lets them. Every page works without it.
