; The household of generated games: one agent, receptacles at places, objects in receptacles or in the hand.
; The names of actions and predicates are those of the ALFWorld protocol, so that every engine of it can play.
; Left out on purpose: slicing, objects inside objects, full receptacles, and lamps that turn off again.

(define (domain alfred)
  (:requirements :adl :typing)
  (:types agent location receptacle object rtype otype)

  (:predicates
    ; what never changes
    (receptacleAtLocation ?r - receptacle ?l - location)
    (receptacleType ?r - receptacle ?t - rtype)
    (objectType ?o - object ?t - otype)
    (canContain ?rt - rtype ?ot - otype)
    (openable ?r - receptacle)
    (pickupable ?o - object)
    (cleanable ?o - object)
    (heatable ?o - object)
    (coolable ?o - object)
    (toggleable ?o - object)
    ; what the agent changes
    (atLocation ?a - agent ?l - location)
    (opened ?r - receptacle)
    (inReceptacle ?o - object ?r - receptacle)
    (holds ?a - agent ?o - object)
    (holdsAny ?a - agent)
    (isClean ?o - object)
    (isHot ?o - object)
    (isCool ?o - object)
    (isToggled ?o - object)
    ; what only keeps an action without any other effect alive in a planner
    (checked ?x)
  )

  ; ---- moving ----

  (:action GotoLocation
    :parameters (?a - agent ?lStart - location ?lEnd - location ?r - receptacle)
    :precondition (and (atLocation ?a ?lStart) (receptacleAtLocation ?r ?lEnd))
    :effect (and (not (atLocation ?a ?lStart)) (atLocation ?a ?lEnd))
  )

  ; ---- receptacles ----

  (:action OpenObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (openable ?r) (not (opened ?r)))
    :effect (and (opened ?r))
  )

  (:action CloseObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (openable ?r) (opened ?r))
    :effect (and (not (opened ?r)))
  )

  ; ---- objects ----

  (:action PickupObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and
      (pickupable ?o)
      (atLocation ?a ?l)
      (receptacleAtLocation ?r ?l)
      (inReceptacle ?o ?r)
      (not (holdsAny ?a))
      (or (not (openable ?r)) (opened ?r))
    )
    :effect (and (not (inReceptacle ?o ?r)) (holds ?a ?o) (holdsAny ?a))
  )

  (:action PutObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle ?ot - otype ?rt - rtype)
    :precondition (and
      (holds ?a ?o)
      (atLocation ?a ?l)
      (receptacleAtLocation ?r ?l)
      (or (not (openable ?r)) (opened ?r))
      (objectType ?o ?ot)
      (receptacleType ?r ?rt)
      (canContain ?rt ?ot)
    )
    :effect (and (inReceptacle ?o ?r) (not (holds ?a ?o)) (not (holdsAny ?a)))
  )

  ; ---- what receptacles and lamps do: the object stays in the hand, and a door need not be open ----

  (:action CleanObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (cleanable ?o)
      (receptacleType ?r SinkBasinType)
      (atLocation ?a ?l)
      (receptacleAtLocation ?r ?l)
      (holds ?a ?o)
    )
    :effect (and (isClean ?o))
  )

  (:action HeatObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (heatable ?o)
      (receptacleType ?r MicrowaveType)
      (atLocation ?a ?l)
      (receptacleAtLocation ?r ?l)
      (holds ?a ?o)
    )
    :effect (and (isHot ?o) (not (isCool ?o)))
  )

  (:action CoolObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and
      (coolable ?o)
      (receptacleType ?r FridgeType)
      (atLocation ?a ?l)
      (receptacleAtLocation ?r ?l)
      (holds ?a ?o)
    )
    :effect (and (isCool ?o) (not (isHot ?o)))
  )

  (:action ToggleObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and
      (toggleable ?o)
      (atLocation ?a ?l)
      (receptacleAtLocation ?r ?l)
      (inReceptacle ?o ?r)
    )
    :effect (and (isToggled ?o))
  )

  ; ---- looking ----

  (:action look
    :parameters (?a - agent ?l - location)
    :precondition (and (atLocation ?a ?l))
    :effect (and (checked ?l))
  )

  (:action inventory
    :parameters (?a - agent)
    :precondition ()
    :effect (and (checked ?a))
  )

  (:action examineReceptacle
    :parameters (?a - agent ?r - receptacle)
    :precondition (exists (?l - location) (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)))
    :effect (and (checked ?r))
  )

  (:action examineObject
    :parameters (?a - agent ?o - object)
    :precondition (and (holds ?a ?o))
    :effect (and (checked ?o))
  )

  (:action help
    :parameters (?a - agent)
    :precondition ()
    :effect (and (checked ?a))
  )
)
