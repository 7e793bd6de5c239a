(ns arrowwood.impl.once
  "Types that outlive a reload."
  {:no-doc true}
  (:require
   [clojure.string :as str]))

(set! *warn-on-reflection* true)

(defonce ^:private sources (atom {}))

(defn made
  "Remembers the source of a type that is there."
  [name source]
  (swap! sources assoc name source)
  nil)

(defn- source-of
  "Types as text, the same whenever they are read."
  [& forms]
  (binding [*print-length* nil *print-level* nil *print-meta* true *print-dup* false *print-readably* true]
    ;; The reader numbers the arguments of #().
    (str/replace (pr-str forms) #"__\d+#" "")))

(defmacro deftype-once
  "As `deftype`, but a type that was made of the same source stays as it is. Otherwise `:reload-all` of what uses it would
  make another one of the same name, and strangers of all datasets that are open."
  [name fields & body]
  (let [class-name (symbol (str (namespace-munge *ns*) "." name))
        source (source-of name fields body)]
    (if (and (not *compile-files*) (= source (@sources class-name)))
      `(import '~class-name)
      `(do (deftype ~name ~fields ~@body)
           (made '~class-name ~source)))))
