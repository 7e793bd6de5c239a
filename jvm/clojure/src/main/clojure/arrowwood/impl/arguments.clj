(ns arrowwood.impl.arguments
  "What callers give: checked, and shown in messages."
  {:no-doc true}
  (:require
   [clojure.string :as str])
  (:import
   (clojure.lang PersistentHashMap PersistentHashSet)
   (dev.arrowwood ArrowwoodException$InvalidArgument)
   (java.util HashMap HashSet LinkedHashMap LinkedHashSet)))

(set! *warn-on-reflection* true)

(def ^:private most-characters 200)

(defn shown
  "A value as messages show it: its beginning, also of what is large or has no end."
  ^String [x]
  (let [^String text (try
                       (binding [*print-length* 8 *print-level* 4 *print-dup* false *print-meta* false]
                         (pr-str x))
                       ;; What is lazy may fail.
                       (catch Exception _ (str "a value of " (class x))))]
    (if (< (long most-characters) (count text)) (str (subs text 0 most-characters) " …") text)))

(defn wrong
  "The exception of an argument that can't be."
  ^ArrowwoodException$InvalidArgument [& words]
  (ArrowwoodException$InvalidArgument. (str/join words)))

(defn- distance
  "How many letters differ: added, left out or exchanged."
  ^long [one other]
  (long (last (reduce (fn [before letter]
                        (reductions (fn [left [above-left above other-letter]]
                                      (min (inc (long left)) (inc (long above))
                                           (+ (long above-left) (if (= letter other-letter) 0 1))))
                                    (inc (long (first before)))
                                    (map vector before (rest before) other)))
                      (range (inc (count other)))
                      one))))

(defn nearest
  "That of some keywords which is most like a key."
  [key known]
  (let [text #(str/replace (str/lower-case (str %)) #"[:_]" {":" "" "_" "-"})
        given (let [^String shown (text (shown key))] (subs shown 0 (min 40 (count shown))))]
    (first (sort-by (fn [one] [(if (str/starts-with? (text one) given) 0 1) (distance given (text one))]) known))))

(defn known
  "A map whose keys are all known, or nil. `what` has the keys, as in \"aggregate\"."
  [what keys given]
  (when-not (or (nil? given) (map? given))
    (throw (wrong what " takes options as a map, such as {" (first keys) " …}, not " (shown given))))
  (doseq [key (clojure.core/keys given)]
    (when-not (some #(= key %) keys)
      (throw (wrong what " has no option " (shown key) ", perhaps it is " (nearest key keys) "; there are "
                    (str/join ", " keys)))))
  given)

(defn in-order
  "What has an order of its own; hash maps and sets have none. `what` needs it, as in \"a schema\"."
  [what given]
  (let [hash-map? (or (instance? PersistentHashMap given)
                      (and (instance? HashMap given) (not (instance? LinkedHashMap given))))
        hash-set? (or (instance? PersistentHashSet given)
                      (and (instance? HashSet given) (not (instance? LinkedHashSet given))))]
    (when (and (or hash-map? hash-set?) (< 1 (count given)))
      (throw (if hash-map?
               (wrong what " has an order, and a map of " (count given) " has none: give a vector of pairs, ["
                      (shown (let [entry (first given)] [(key entry) (val entry)])) " …]")
               (wrong what " has an order, and a set of " (count given) " has none: give a vector, [" (shown (first given))
                      " …]"))))
    given))
